# SPDX-License-Identifier: Apache-2.0
# The Debian package: `cpack -G DEB` in a build folder whose prefix is /usr (the preset
# "package"), on the release of Debian that it is for. Dependencies are found there: by dpkg-shlibdeps the linked ones, and here
# those that are loaded later or run.
find_program(DPKG_QUERY dpkg-query)
find_program(DPKG dpkg)
if(NOT DPKG_QUERY OR NOT DPKG)
  return()
endif()

# A library that is loaded when it is first used comes from the package that has its file: the list is berth_loaded()'s own.
get_property(sonames GLOBAL PROPERTY BERTH_LOADED_SONAMES)
set(needed python3 bubblewrap ca-certificates passwd "systemd-standalone-sysusers | systemd-sysusers")
foreach(soname IN LISTS sonames)
  execute_process(COMMAND ${DPKG_QUERY} --search */${CMAKE_LIBRARY_ARCHITECTURE}/${soname}
    OUTPUT_VARIABLE owner OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT owner MATCHES "^([a-z0-9.+-]+)(:[a-z0-9]+)?: ")
    message(STATUS "No package has ${soname}: what cpack makes here would not say what it depends on, and is left out")
    return()
  endif()
  list(APPEND needed ${CMAKE_MATCH_1})
endforeach()
list(REMOVE_DUPLICATES needed)
list(SORT needed)
list(JOIN needed ", " CPACK_DEBIAN_PACKAGE_DEPENDS)

execute_process(COMMAND sh -c ". /etc/os-release && echo $ID$VERSION_ID" OUTPUT_VARIABLE release OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${DPKG} --print-architecture OUTPUT_VARIABLE architecture OUTPUT_STRIP_TRAILING_WHITESPACE)
if(CMAKE_CROSSCOMPILING)
  set(architecture ${BERTH_DEBIAN_ARCHITECTURE})
endif()
string(REPLACE "debian" "deb" release "${release}")

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME berth)
set(CPACK_PACKAGE_CONTACT "The authors of Berth <berth@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "environments and sandboxes in which AI agents run code")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Berth keeps the environments in which AI agents run code as manifests declare
them: sandboxes on this machine, or Lambda functions in an AWS account. It
serves sessions that keep their variables over HTTP and MCP, and follows Git.")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${release})
set(CPACK_DEBIAN_FILE_NAME berth_${PROJECT_VERSION}-1~${release}_${architecture}.deb)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${architecture})
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# Sources whose commits are signed; images of one's own.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gpgv, openssh-client")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "mmdebstrap, uidmap, skopeo")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/debian/postinst
  ${CMAKE_SOURCE_DIR}/packaging/debian/prerm ${CMAKE_SOURCE_DIR}/packaging/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
