# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts beside the program: manual pages, completions, units for
# systemd with their user, the licence, documentation and examples. Each lies where its reader looks, below /usr as below
# /usr/local.

# The manual pages and the completions come from the program's own tables.
set(told ${CMAKE_BINARY_DIR}/told)
add_custom_command(TARGET berth POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${told}
  COMMAND berth manual berth > ${told}/berth.1
  COMMAND berth manual manifests > ${told}/berth-manifests.5
  COMMAND berth completion bash > ${told}/berth
  COMMAND berth completion zsh > ${told}/_berth
  COMMAND berth completion fish > ${told}/berth.fish)
# Debian's zsh looks elsewhere for those of packages.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(zsh share/zsh/vendor-completions)
else()
  set(zsh share/zsh/site-functions)
endif()
install(FILES ${told}/berth.1 DESTINATION share/man/man1)
install(FILES ${told}/berth-manifests.5 DESTINATION share/man/man5)
install(FILES ${told}/berth DESTINATION share/bash-completion/completions)
install(FILES ${told}/_berth DESTINATION ${zsh})
install(FILES ${told}/berth.fish DESTINATION share/fish/vendor_completions.d)

install(FILES ${CMAKE_SOURCE_DIR}/packaging/copyright DESTINATION share/doc/berth)
install(FILES ${CLOUDPICKLE_LICENCE} DESTINATION share/doc/berth RENAME LICENSE.cloudpickle)
if(EXISTS /usr/share/doc/libjansson-dev/copyright) # linked into berth-runtime
  install(FILES /usr/share/doc/libjansson-dev/copyright DESTINATION share/doc/berth RENAME LICENSE.jansson)
endif()
# An image may be built from the sources alone: examples/controller/Containerfile.
foreach(page README.md CHANGELOG.md SECURITY.md LICENSE docs examples)
  if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/${page})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/${page} DESTINATION share/doc/berth USE_SOURCE_PERMISSIONS
      PATTERN .berth EXCLUDE PATTERN __pycache__ EXCLUDE)
  elseif(EXISTS ${CMAKE_SOURCE_DIR}/${page})
    install(FILES ${CMAKE_SOURCE_DIR}/${page} DESTINATION share/doc/berth)
  endif()
endforeach()

# lib, and not a folder of the architecture: systemd looks below /usr and /usr/local alike.
install(FILES ${CMAKE_SOURCE_DIR}/packaging/berth.sysusers DESTINATION lib/sysusers.d RENAME berth.conf)
foreach(unit controller/berth-controller.service serve/berth-serve.service
    launcher/berth-launcher.service launcher/berth-launcher.socket)
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/examples/${unit})
    continue()
  endif()
  install(CODE "set(unit \"${CMAKE_SOURCE_DIR}/examples/${unit}\")\nset(written \"${told}\")")
  install(SCRIPT ${CMAKE_SOURCE_DIR}/packaging/unit.cmake)
endforeach()
