# UNIO_URING: is the io_uring driver compiled? Without it unio runs on epoll and needs no other library.

set(UNIO_LIBURING_VERSION 2.3)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(unio_liburing QUIET IMPORTED_TARGET GLOBAL "liburing>=${UNIO_LIBURING_VERSION}")
endif()

if(unio_liburing_FOUND)
  unio_option(UNIO_URING "Build the io_uring driver" ON)
else()
  unio_option(UNIO_URING "Build the io_uring driver" OFF)
endif()

if(UNIO_URING AND NOT unio_liburing_FOUND)
  message(FATAL_ERROR "unio: UNIO_URING is ON, but pkg-config finds no liburing >= ${UNIO_LIBURING_VERSION}")
elseif(UNIO_URING)
  message(STATUS "unio: drivers: io_uring (liburing ${unio_liburing_VERSION}), epoll")
elseif(unio_liburing_FOUND)
  message(STATUS "unio: drivers: epoll only, because UNIO_URING is OFF")
else()
  message(STATUS "unio: drivers: epoll only, because liburing >= ${UNIO_LIBURING_VERSION} was not found")
endif()
