# UNIO_TLS: is unio::tls compiled? It needs OpenSSL; the rest of unio does not.

set(UNIO_OPENSSL_VERSION 3.0)

find_package(OpenSSL ${UNIO_OPENSSL_VERSION} QUIET)
if(OPENSSL_FOUND)
  option(UNIO_TLS "Build unio::tls" ON)
else()
  option(UNIO_TLS "Build unio::tls" OFF)
endif()

if(UNIO_TLS AND NOT OPENSSL_FOUND)
  message(FATAL_ERROR "unio: UNIO_TLS is ON, but there is no OpenSSL >= ${UNIO_OPENSSL_VERSION}")
elseif(NOT UNIO_TLS)
  set(unio_why "OpenSSL >= ${UNIO_OPENSSL_VERSION} was not found (package libssl-dev)")
  if(OPENSSL_FOUND)
    set(unio_why "UNIO_TLS is OFF")
  endif()
  message(STATUS "unio: unio::tls and what uses it are left out, because ${unio_why}")
  unset(unio_why)
  return()
endif()
message(STATUS "unio: unio::tls: OpenSSL ${OPENSSL_VERSION}")

# As unio::unio: static and shared, from one compilation.
file(GLOB unio_tls_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/tls/*.cpp")
add_library(unio_tls_objects OBJECT ${unio_tls_sources})
set_target_properties(unio_tls_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden)
target_include_directories(unio_tls_objects PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(unio_tls_objects PRIVATE -ffunction-sections -fdata-sections)
target_link_libraries(unio_tls_objects PRIVATE unio_build OpenSSL::SSL)
if(UNIO_TRACK_PENDING)
  target_compile_definitions(unio_tls_objects PUBLIC UNIO_TRACK_PENDING=1)
endif()

add_library(unio_tls_static STATIC $<TARGET_OBJECTS:unio_tls_objects>)
add_library(unio_tls_shared SHARED $<TARGET_OBJECTS:unio_tls_objects>)
foreach(kind IN ITEMS static shared)
  set(library unio_tls_${kind})
  add_library(unio::${library} ALIAS ${library})
  set_target_properties(${library} PROPERTIES OUTPUT_NAME unio_tls LINKER_LANGUAGE CXX)
  target_link_libraries(${library} PUBLIC unio_${kind} PRIVATE OpenSSL::SSL)
endforeach()
set_target_properties(unio_tls_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
if(NOT UNIO_SANITIZE)
  target_link_options(unio_tls_shared PRIVATE LINKER:--no-undefined)
endif()

if(BUILD_SHARED_LIBS)
  add_library(unio::tls ALIAS unio_tls_shared)
else()
  add_library(unio::tls ALIAS unio_tls_static)
endif()
