# SPDX-License-Identifier: Apache-2.0
# Writes the header OUTPUT: which commit of SOURCE this is and of which day, "+" behind it where files differ from it. In an archive that
# git has made, cli/commit.txt says so. The header is touched only where it changes. Sourced by CMake at each build.
set(commit "")
set(day "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} log -1 --abbrev=12 --format=%h\ %cs
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT} -C ${SOURCE} status --porcelain --untracked-files=no
    OUTPUT_VARIABLE changed ERROR_QUIET)
else()
  file(STRINGS ${SOURCE}/cli/commit.txt said LIMIT_COUNT 1)
endif()
if(said MATCHES "^([0-9a-f]+) ([0-9]+-[0-9]+-[0-9]+)$")
  set(commit ${CMAKE_MATCH_1})
  set(day ${CMAKE_MATCH_2})
  if(changed)
    string(APPEND commit "+")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "/* Made by cli/commit.cmake. */
#define BERTH_COMMIT \"${commit}\"
#define BERTH_COMMIT_DAY \"${day}\"
")
