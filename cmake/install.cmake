# What `cmake --install` puts where: headers, the libraries, the CMake package, unio.pc. The command adds
# itself.

include(CMakePackageConfigHelpers)

set(unio_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/unio)
set(unio_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unio
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp")

install(TARGETS unio_static unio_shared EXPORT unioTargets)
if(TARGET unio_testing)
  install(TARGETS unio_testing EXPORT unioTargets)
endif()
if(UNIO_TLS)
  install(TARGETS unio_tls_static unio_tls_shared EXPORT unioTargets)
endif()
if(UNIO_NET)
  install(TARGETS unio_net_static unio_net_shared EXPORT unioTargets)
endif()
install(EXPORT unioTargets NAMESPACE unio:: DESTINATION ${unio_package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/unioConfig.cmake.in
  ${PROJECT_BINARY_DIR}/unioConfig.cmake
  INSTALL_DESTINATION ${unio_package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/unioConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unioConfig.cmake ${PROJECT_BINARY_DIR}/unioConfigVersion.cmake
  DESTINATION ${unio_package_dir})

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
set(unio_pc_definitions "")
if(UNIO_TRACK_PENDING) # it is part of promises and operations
  set(unio_pc_definitions " -DUNIO_TRACK_PENDING=1")
endif()
set(unio_pc_requires "")
if(UNIO_URING)
  set(unio_pc_requires "liburing >= ${UNIO_LIBURING_VERSION}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/unio.pc.in ${PROJECT_BINARY_DIR}/unio.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/unio.pc DESTINATION ${unio_pkgconfig_dir})
if(UNIO_TLS)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/unio_tls.pc.in ${PROJECT_BINARY_DIR}/unio_tls.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/unio_tls.pc DESTINATION ${unio_pkgconfig_dir})
endif()
if(UNIO_NET)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/unio_net.pc.in ${PROJECT_BINARY_DIR}/unio_net.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/unio_net.pc DESTINATION ${unio_pkgconfig_dir})
endif()
