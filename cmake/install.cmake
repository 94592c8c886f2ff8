# What `cmake --install` puts where: headers, the libraries, the CMake package, the files of pkg-config. The
# command adds itself. The components are the packages that cpack.cmake makes.

include(CMakePackageConfigHelpers)
find_program(UNIO_GZIP gzip)
mark_as_advanced(UNIO_GZIP)

set(unio_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/unio)
set(unio_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unio
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.ipp")

# unio_install_library(NAME COMPONENT): libNAME.so.0.1 is in COMPONENT, the rest in development. What --static
# gives pkg-config finds the static library without the shared one beside it.
function(unio_install_library name component)
  install(TARGETS ${name}_static ${name}_shared EXPORT unioTargets
    ARCHIVE COMPONENT development
    LIBRARY COMPONENT ${component} NAMELINK_COMPONENT development)
  set(archive ${CMAKE_STATIC_LIBRARY_PREFIX}${name}${CMAKE_STATIC_LIBRARY_SUFFIX})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/unio-static)
  file(CREATE_LINK ../${archive} ${PROJECT_BINARY_DIR}/unio-static/${archive} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/unio-static/${archive}
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/unio-static COMPONENT development)
endfunction()

unio_install_library(unio runtime)
if(TARGET unio_testing)
  install(TARGETS unio_testing EXPORT unioTargets COMPONENT development)
endif()
if(TARGET unio_testing_threads)
  install(TARGETS unio_testing_threads EXPORT unioTargets COMPONENT development)
endif()
if(TARGET unio_simulate)
  install(TARGETS unio_testing_libc EXPORT unioTargets COMPONENT development)
  install(TARGETS unio_simulate unio_stage
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/unio
    RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/unio
    COMPONENT command)
endif()
foreach(part IN ITEMS locks fs tls net)
  if(TARGET unio_${part}_static)
    unio_install_library(unio_${part} runtime_${part})
  endif()
endforeach()

# What gdb shows of unio: to source, and loaded by itself for the shared library below /usr.
install(FILES ${PROJECT_SOURCE_DIR}/tools/gdb/unio-gdb.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/unio COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/tools/gdb/unio-gdb.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR} COMPONENT development
  RENAME $<TARGET_FILE_NAME:unio_shared>-gdb.py)

install(TARGETS unio_asio EXPORT unioTargets COMPONENT development)
install(EXPORT unioTargets NAMESPACE unio:: DESTINATION ${unio_package_dir} COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/unioConfig.cmake.in
  ${PROJECT_BINARY_DIR}/unioConfig.cmake
  INSTALL_DESTINATION ${unio_package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/unioConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unioConfig.cmake ${PROJECT_BINARY_DIR}/unioConfigVersion.cmake
  DESTINATION ${unio_package_dir} COMPONENT development)

# unio.pc finds its prefix from where it lies, so that `--prefix` can be chosen at installation.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(unio_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH unio_pc_up "/${unio_pkgconfig_dir}" "/")
  string(REGEX REPLACE "/$" "" unio_pc_up "${unio_pc_up}")
  set(unio_pc_prefix "\${pcfiledir}/${unio_pc_up}")
endif()
foreach(dir IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(unio_pc_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(unio_pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(unio_pc_requires "")
if(UNIO_URING)
  set(unio_pc_requires "liburing >= ${UNIO_LIBURING_VERSION}")
endif()
set(unio_pc_cflags "")
if(UNIO_TRACK_PENDING)
  set(unio_pc_cflags " -DUNIO_TRACK_PENDING=1") # as the CMake target says
endif()
foreach(package IN ITEMS unio unio_libdir unio_locks unio_fs unio_tls unio_net unio_asio unio_asio_adapter)
  if(package MATCHES "^unio_(tls|net)$" AND NOT TARGET ${package}_static)
    continue()
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${unio_pkgconfig_dir} COMPONENT development)
endforeach()

if(PROJECT_IS_TOP_LEVEL) # another project has packages of its own
  include(cmake/cpack.cmake)
endif()
