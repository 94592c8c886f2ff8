# Debian packages: `cpack -G DEB` in the build directory of a build with CMAKE_INSTALL_PREFIX=/usr, as
# scripts/check-deb makes one.
#
#   libunio0.1                                   the shared library
#   libunio-locks0.1, libunio-fs0.1              locks between processes, directory trees
#   libunio-tls0.1, libunio-net0.1               apart because of what they need
#   libunio-dev                                  headers, static libraries, CMake and pkg-config
#   unio                                         the command, its manual page and its completions

set(CPACK_PACKAGE_NAME unio)
set(CPACK_PACKAGE_VENDOR unio)
set(CPACK_PACKAGE_CONTACT "unio maintainers <unio@example.org>" CACHE STRING "Who answers for the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}) # for what one of ours needs of another
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=") # until 1.0 each version is its own
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL "")

# unio_debian_package(COMPONENT NAME SECTION DEPENDS "list" ABOUT "a line" TEXT "lines")
function(unio_debian_package component name section)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "DEPENDS;ABOUT;TEXT" "")
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${arg_DEPENDS}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${arg_ABOUT}\n${arg_TEXT}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${arg_ABOUT}\n${arg_TEXT}" PARENT_SCOPE)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)

  # dpkg runs ldconfig when it sees the trigger. CMake would write scripts that run it, but for those that are
  # named here, which need not exist.
  if(section STREQUAL "libs")
    file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
    set(none ${PROJECT_BINARY_DIR}/debian/none)
    set(CPACK_DEBIAN_${key}_PACKAGE_CONTROL_EXTRA
      "${PROJECT_BINARY_DIR}/debian/triggers;${none}/postinst;${none}/postrm" PARENT_SCOPE)
  endif()

  # Debian's own two documents, which only packages have.
  set(dir ${PROJECT_BINARY_DIR}/debian/${name})
  file(MAKE_DIRECTORY ${dir})
  set(unio_package ${name})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/debian_changelog.in ${dir}/changelog @ONLY)
  execute_process(COMMAND ${UNIO_GZIP} -9nkf ${dir}/changelog COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
  file(WRITE ${dir}/copyright "unio\nCopyright 2026 the authors of unio\n\n${license}")
  install(FILES ${dir}/changelog.gz ${dir}/copyright
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

if(NOT UNIO_GZIP)
  return()
endif()

set(same "(= ${PROJECT_VERSION})")
set(about "unio performs I/O on io_uring, on epoll or by plain system calls, with the\nsame result: \
blocking, polled, awaited by a coroutine, or multiplexed.")
set(libraries "libunio${UNIO_ABI} ${same}")
set(needs "")
if(UNIO_URING)
  string(APPEND needs ", liburing-dev (>= ${UNIO_LIBURING_VERSION})")
endif()

unio_debian_package(runtime libunio${UNIO_ABI} libs
  ABOUT "one I/O over io_uring and epoll: shared library"
  TEXT "${about}")
unio_debian_package(runtime_locks libunio-locks${UNIO_ABI} libs DEPENDS "libunio${UNIO_ABI} ${same}"
  ABOUT "one I/O over io_uring and epoll: locks between processes"
  TEXT "${about}\nThis locks what processes share, and replaces several files as one.")
unio_debian_package(runtime_fs libunio-fs${UNIO_ABI} libs DEPENDS "libunio${UNIO_ABI} ${same}"
  ABOUT "one I/O over io_uring and epoll: directory trees"
  TEXT "${about}\nThis walks, compares, copies and removes trees of files.")
string(APPEND libraries ", libunio-locks${UNIO_ABI} ${same}, libunio-fs${UNIO_ABI} ${same}")
if(TARGET unio_tls_shared)
  unio_debian_package(runtime_tls libunio-tls${UNIO_ABI} libs DEPENDS "libunio${UNIO_ABI} ${same}"
    ABOUT "one I/O over io_uring and epoll: TLS"
    TEXT "${about}\nThis is TLS over any of its streams, by OpenSSL.")
  string(APPEND libraries ", libunio-tls${UNIO_ABI} ${same}")
  string(APPEND needs ", libssl-dev (>= ${UNIO_OPENSSL_VERSION})")
endif()
if(TARGET unio_net_shared)
  unio_debian_package(runtime_net libunio-net${UNIO_ABI} libs DEPENDS "libunio${UNIO_ABI} ${same}"
    ABOUT "one I/O over io_uring and epoll: names of hosts"
    TEXT "${about}\nThis finds the addresses of hosts, by c-ares.")
  string(APPEND libraries ", libunio-net${UNIO_ABI} ${same}")
  string(APPEND needs ", libc-ares-dev (>= ${UNIO_CARES_VERSION})")
endif()
unio_debian_package(development libunio-dev libdevel DEPENDS "${libraries}${needs}"
  ABOUT "one I/O over io_uring and epoll: headers and static libraries"
  TEXT "${about}\nThis is what programs in C++23 are compiled with.")
if(UNIO_BUILD_TOOLS AND NOT UNIO_SANITIZE)
  set(depends)
  if(BUILD_SHARED_LIBS)
    set(depends DEPENDS "${libraries}")
  endif()
  unio_debian_package(command unio utils ${depends}
    ABOUT "locks, trees of files and names over io_uring or epoll"
    TEXT "${about}\nThe command runs others under locks, copies and removes trees of files, \
finds\nthe addresses of hosts, and shows what the library does with this machine.")
endif()

include(CPack)
