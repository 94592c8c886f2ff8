# UNIO_NET: is unio::net compiled? It needs c-ares; the rest of unio does not.

set(UNIO_CARES_VERSION 1.18.1)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(unio_cares QUIET IMPORTED_TARGET GLOBAL libcares>=${UNIO_CARES_VERSION})
endif()
if(unio_cares_FOUND)
  option(UNIO_NET "Build unio::net" ON)
else()
  option(UNIO_NET "Build unio::net" OFF)
endif()

if(UNIO_NET AND NOT unio_cares_FOUND)
  message(FATAL_ERROR "unio: UNIO_NET is ON, but there is no c-ares >= ${UNIO_CARES_VERSION}")
elseif(NOT UNIO_NET)
  set(unio_why "c-ares >= ${UNIO_CARES_VERSION} was not found (package libc-ares-dev)")
  if(unio_cares_FOUND)
    set(unio_why "UNIO_NET is OFF")
  endif()
  message(STATUS "unio: unio::net and what uses it are left out, because ${unio_why}")
  unset(unio_why)
  return()
endif()
message(STATUS "unio: unio::net: c-ares ${unio_cares_VERSION}")

# As unio::unio: static and shared, from one compilation.
file(GLOB unio_net_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/net/*.cpp")
add_library(unio_net_objects OBJECT ${unio_net_sources})
set_target_properties(unio_net_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden)
target_include_directories(unio_net_objects PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(unio_net_objects PRIVATE -ffunction-sections -fdata-sections)
target_link_libraries(unio_net_objects PRIVATE unio_build PkgConfig::unio_cares)
if(UNIO_TRACK_PENDING)
  target_compile_definitions(unio_net_objects PUBLIC UNIO_TRACK_PENDING=1)
endif()

add_library(unio_net_static STATIC $<TARGET_OBJECTS:unio_net_objects>)
add_library(unio_net_shared SHARED $<TARGET_OBJECTS:unio_net_objects>)
foreach(kind IN ITEMS static shared)
  set(library unio_net_${kind})
  add_library(unio::${library} ALIAS ${library})
  set_target_properties(${library} PROPERTIES OUTPUT_NAME unio_net LINKER_LANGUAGE CXX)
  target_link_libraries(${library} PUBLIC unio_${kind} PRIVATE PkgConfig::unio_cares)
endforeach()
set_target_properties(unio_net_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
if(NOT UNIO_SANITIZE)
  target_link_options(unio_net_shared PRIVATE LINKER:--no-undefined)
endif()

if(BUILD_SHARED_LIBS)
  add_library(unio::net ALIAS unio_net_shared)
else()
  add_library(unio::net ALIAS unio_net_static)
endif()
