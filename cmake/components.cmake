# The libraries beside unio::unio, which a program links if it uses them, and what programs of another library
# are compiled with. tls and net need a library that the rest of unio does not.
#
#   unio::locks  locks between processes, several files replaced as one
#   unio::fs     directory trees
#   unio::asio   Asio's programs on unio's drivers: headers that come before Asio's own, which the program
#                has
#   unio::tls    OpenSSL; UNIO_TLS: is it compiled? (as a setting: ON, OFF, AUTO)
#   unio::net    c-ares; UNIO_NET likewise
#   unio::asio_adapter   the headers of Asio or Boost.Asio, which the program has; is headers alone

set(UNIO_OPENSSL_VERSION 3.0)
set(UNIO_CARES_VERSION 1.18.1)

# unio_part(NAME [target of another library]): src/NAME/*.cpp become unio::NAME, static or shared as
# unio::unio is, both from one compilation.
function(unio_part name)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  set(objects unio_${name}_objects)
  add_library(${objects} OBJECT ${sources})
  set_target_properties(${objects} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden)
  target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(${objects} PRIVATE -ffunction-sections -fdata-sections -fno-semantic-interposition)
  target_link_libraries(${objects} PRIVATE unio_build Threads::Threads ${ARGN})
  if(UNIO_TRACK_PENDING)
    target_compile_definitions(${objects} PUBLIC UNIO_TRACK_PENDING=1)
  endif()
  if(UNIO_PRECOMPILE)
    target_precompile_headers(${objects} REUSE_FROM unio_objects)
  endif()

  add_library(unio_${name}_static STATIC $<TARGET_OBJECTS:${objects}>)
  add_library(unio_${name}_shared SHARED $<TARGET_OBJECTS:${objects}>)
  foreach(kind IN ITEMS static shared)
    set(library unio_${name}_${kind})
    add_library(unio::${library} ALIAS ${library})
    set_target_properties(${library} PROPERTIES OUTPUT_NAME unio_${name} LINKER_LANGUAGE CXX)
    target_link_libraries(${library} PUBLIC unio_${kind} PRIVATE ${ARGN})
  endforeach()
  set_target_properties(unio_${name}_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${UNIO_ABI})
  if(NOT UNIO_SANITIZE)
    target_link_options(unio_${name}_shared PRIVATE LINKER:--no-undefined)
  endif()

  unio_build_if_used(${objects} unio_${name}_static unio_${name}_shared)

  if(BUILD_SHARED_LIBS)
    add_library(unio::${name} ALIAS unio_${name}_shared)
  else()
    add_library(unio::${name} ALIAS unio_${name}_static)
  endif()
endfunction()

# unio_component(NAME FOUND is-it-there NEEDS "what, as people call it" PACKAGE name LIBRARY target)
# unio_part() of what needs a LIBRARY. Without that it is left out, with a line that says why.
function(unio_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOUND;NEEDS;PACKAGE;LIBRARY" "")
  string(TOUPPER UNIO_${name} is_wanted)
  # AUTO is decided by each configuration: what was missing may have been installed since the last.
  set(${is_wanted} AUTO CACHE STRING "Build unio::${name}: ON, OFF, or AUTO, where there is ${arg_NEEDS}")
  unio_check_setting(${is_wanted} AUTO)
  if(${is_wanted} STREQUAL "AUTO")
    set(${is_wanted} OFF)
    if(arg_FOUND)
      set(${is_wanted} ON)
    endif()
  endif()
  set(${is_wanted} ${${is_wanted}} PARENT_SCOPE)
  if(${is_wanted} AND NOT arg_FOUND)
    message(FATAL_ERROR "unio: ${is_wanted} is ON, but there is no ${arg_NEEDS}")
  elseif(NOT ${is_wanted})
    set(why "${arg_NEEDS} was not found (package ${arg_PACKAGE})")
    if(arg_FOUND)
      set(why "${is_wanted} is OFF")
    endif()
    message(STATUS "unio: unio::${name} and what uses it are left out, because ${why}")
    return()
  endif()
  message(STATUS "unio: unio::${name}: ${arg_NEEDS}")
  unio_part(${name} ${arg_LIBRARY})
endfunction()

unio_part(locks)
unio_part(fs)

find_package(OpenSSL ${UNIO_OPENSSL_VERSION} QUIET GLOBAL)
unio_component(tls FOUND "${OPENSSL_FOUND}" NEEDS "OpenSSL >= ${UNIO_OPENSSL_VERSION}" PACKAGE libssl-dev
  LIBRARY OpenSSL::SSL)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(unio_cares QUIET IMPORTED_TARGET GLOBAL libcares>=${UNIO_CARES_VERSION})
endif()
unio_component(net FOUND "${unio_cares_FOUND}" NEEDS "c-ares >= ${UNIO_CARES_VERSION}" PACKAGE libc-ares-dev
  LIBRARY PkgConfig::unio_cares)

# Objects with unio::asio refer to unio::net then, so that the linker takes it: unio/extend/foreign_names.hpp
if(TARGET unio_net_static)
  foreach(kind IN ITEMS static shared)
    target_compile_definitions(unio_net_${kind} INTERFACE UNIO_USES_NET=1)
  endforeach()
endif()

# A program keeps its standard of C++, so it gets nothing of unio::unio but the library and one directory.
# Where Asio's own headers are in a directory that it names itself, -iquote comes before that.
add_library(unio_asio INTERFACE)
add_library(unio::asio ALIAS unio_asio)
set_target_properties(unio_asio PROPERTIES EXPORT_NAME asio EXPORT_NO_SYSTEM ON)
target_include_directories(unio_asio INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/unio/asio-backend>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/unio/asio-backend>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_options(unio_asio INTERFACE
  "SHELL:$<BUILD_INTERFACE:-iquote ${PROJECT_SOURCE_DIR}/include/unio/asio-backend>"
  "SHELL:$<INSTALL_INTERFACE:-iquote $<INSTALL_PREFIX>/${CMAKE_INSTALL_INCLUDEDIR}/unio/asio-backend>")
if(UNIO_TRACK_PENDING)
  target_compile_definitions(unio_asio INTERFACE UNIO_TRACK_PENDING=1) # it records what waits
endif()
# An installed one is given its library by unioConfig.cmake, which knows the kind.
if(BUILD_SHARED_LIBS)
  target_link_libraries(unio_asio INTERFACE $<BUILD_INTERFACE:$<LINK_ONLY:unio_shared>>)
else()
  target_link_libraries(unio_asio INTERFACE $<BUILD_INTERFACE:$<LINK_ONLY:unio_static>>)
endif()

# Nothing of it is compiled here; an installed unio has it too (unioConfig.cmake.in).
add_library(unio_asio_adapter INTERFACE)
target_link_libraries(unio_asio_adapter INTERFACE unio::unio)
add_library(unio::asio_adapter ALIAS unio_asio_adapter)
