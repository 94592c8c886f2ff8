# What a builder can choose. UNIO_URING is in liburing.cmake, because its default is what was found.
# Within another project (add_subdirectory, FetchContent) unio installs nothing, and of its libraries those
# are built that the project links.

# unio_check_setting(NAME [WORD]): an error unless it is ON or OFF, as CMake spells them, or WORD.
function(unio_check_setting name)
  string(TOUPPER "${${name}}" value)
  if(NOT value MATCHES "^(ON|OFF|YES|NO|TRUE|FALSE|Y|N|[0-9]*)$" AND NOT "${${name}}" STREQUAL "${ARGN}")
    set(words ON OFF ${ARGN})
    list(JOIN words ", " words)
    message(FATAL_ERROR "unio: ${name} is \"${${name}}\"; it can be one of ${words}")
  endif()
endfunction()

# unio_option(NAME "what it does" DEFAULT): option(), checked
macro(unio_option name what default)
  option(${name} "${what}" ${default})
  unio_check_setting(${name})
endmacro()

option(BUILD_SHARED_LIBS        "unio::unio is the shared library; both are always built" OFF)
unio_option(UNIO_BUILD_TESTS         "Build the tests"            ${PROJECT_IS_TOP_LEVEL})
unio_option(UNIO_BUILD_EXAMPLES      "Build the examples"         ${PROJECT_IS_TOP_LEVEL})
unio_option(UNIO_BUILD_TOOLS         "Build the unio command"     ${PROJECT_IS_TOP_LEVEL})
unio_option(UNIO_INSTALL             "Install unio: headers, libraries, command" ${PROJECT_IS_TOP_LEVEL})
unio_option(UNIO_BUILD_BENCHMARKS    "Build the benchmarks"       OFF)
unio_option(UNIO_BUILD_DOCS          "Target unio_docs: the reference (doxygen)" OFF)
unio_option(UNIO_WARNINGS_AS_ERRORS  "A warning stops the build"  OFF)
unio_option(UNIO_NO_EXCEPTIONS       "Build library and tests with -fno-exceptions -fno-rtti" OFF)
unio_option(UNIO_LIBCXX              "Build with libc++ instead of libstdc++ (clang)" OFF)
unio_option(UNIO_TRACK_PENDING       "dump_pending tells since when and by whom operations are awaited" OFF)
unio_option(UNIO_PRECOMPILE          "Precompile headers for its sources (hides a missing include)" OFF)

include(CheckIncludeFileCXX)
if(NOT UNIO_HAS_SDT)
  unset(UNIO_HAS_SDT CACHE) # it may have been installed since
endif()
check_include_file_cxx(sys/sdt.h UNIO_HAS_SDT) # package systemtap-sdt-dev
set(UNIO_PROBES AUTO CACHE STRING
  "Probes for bpftrace and perf (USDT): ON, OFF, or AUTO, where there is sys/sdt.h")
unio_check_setting(UNIO_PROBES AUTO)
if(UNIO_PROBES STREQUAL "AUTO")
  set(UNIO_PROBES "${UNIO_HAS_SDT}")
elseif(UNIO_PROBES AND NOT UNIO_HAS_SDT)
  message(FATAL_ERROR "unio: UNIO_PROBES is ON, but there is no sys/sdt.h (package systemtap-sdt-dev)")
endif()
if(NOT UNIO_PROBES)
  message(STATUS "unio: no probes: UNIO_PROBES is OFF, or there is no sys/sdt.h (package systemtap-sdt-dev)")
endif()

set(UNIO_TEST_FLAGS "" CACHE STRING "Compiler options of the test programs, after all others")
set(UNIO_SANITIZE "" CACHE STRING "Sanitizers: empty, address,undefined or thread")
set_property(CACHE UNIO_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(UNIO_STDEXEC_DIR "" CACHE PATH
  "stdexec's headers, for suite.senders.* and examples/senders; empty: a stand-in of the tests', and none")
