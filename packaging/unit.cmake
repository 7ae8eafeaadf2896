# SPDX-License-Identifier: Apache-2.0
# Installs the example `unit` as a unit of this installation: it starts the program where that is put, which only the installation
# knows, and is without the comment about copying. `written` is a folder for the file.
get_filename_component(name ${unit} NAME)
file(READ ${unit} text)
string(REGEX MATCH "^[^\n]*\n" licence "${text}")
string(REGEX REPLACE "^(#[^\n]*\n)+" "" text "${text}")
string(REPLACE "=/usr/bin/berth " "=${CMAKE_INSTALL_PREFIX}/bin/berth " text "${text}")
file(WRITE ${written}/${name} "${licence}${text}")
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system TYPE FILE FILES ${written}/${name})
