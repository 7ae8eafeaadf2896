# SPDX-License-Identifier: Apache-2.0
# Brings cloudpickle (BSD-3-Clause), which berth-runtime carries for the checkpoints of kernels: exactly this release of PyPI's, into
# build/tools, where `./dev setup` and each build look first. CLOUDPICKLE_SOURCE is its one module. Runs by itself, too: cmake -P.
set(release cloudpickle-3.1.2)
set(wheel_hash 9acb47f6afd73f60dc1df93bb801b472f05ff42fa6c84167d25cb206be1fbf4a)
set(folder ${CMAKE_CURRENT_LIST_DIR}/../build/tools/${release})
set(wheel ${folder}/${release}-py3-none-any.whl)
set(CLOUDPICKLE_SOURCE ${folder}/cloudpickle/cloudpickle.py)
set(CLOUDPICKLE_LICENCE ${folder}/${release}.dist-info/licenses/LICENSE) # which is to go wherever the program goes

set(found "")
if(EXISTS ${wheel})
  file(SHA256 ${wheel} found)
endif()
if(NOT found STREQUAL wheel_hash)
  file(MAKE_DIRECTORY ${folder})
  message(STATUS "Fetching ${release} from PyPI")
  set(python ${CMAKE_CURRENT_LIST_DIR}/../build/venv/bin/python)
  if(NOT EXISTS ${python})
    execute_process(COMMAND python3 -m venv ${folder}/venv OUTPUT_QUIET)
    set(python ${folder}/venv/bin/python)
  endif()
  execute_process(COMMAND ${python} -m pip download --quiet --disable-pip-version-check --no-input --no-deps
    --only-binary :all: --dest ${folder}/pip cloudpickle==3.1.2
    OUTPUT_QUIET RESULT_VARIABLE status)
  if(EXISTS ${folder}/pip/${release}-py3-none-any.whl)
    file(RENAME ${folder}/pip/${release}-py3-none-any.whl ${wheel}.new)
    file(SHA256 ${wheel}.new found)
  endif()
  if(NOT found STREQUAL wheel_hash)
    file(REMOVE ${wheel}.new)
    message(FATAL_ERROR "${release}-py3-none-any.whl could not be fetched from PyPI by pip (${status}). berth-runtime cannot be "
      "built without it. Its pip is that of a venv (python3-venv). Put the file, whose SHA-256 is ${wheel_hash}, at ${wheel}")
  endif()
  file(RENAME ${wheel}.new ${wheel})
  file(REMOVE_RECURSE ${folder}/pip ${folder}/venv)
  file(REMOVE_RECURSE ${folder}/cloudpickle)
endif()
if(NOT EXISTS ${CLOUDPICKLE_SOURCE} OR NOT EXISTS ${CLOUDPICKLE_LICENCE})
  file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${folder})
endif()
