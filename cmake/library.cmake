# unio_static and unio_shared, from one compilation; unio::unio is one of them. unio::testing,
# unio::testing_threads and unio::testing_libc beside them.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED GLOBAL) # who links the static library needs it as well

set(unio_source_folders core handle op driver driver/engine driver/epoll driver/foreign driver/shared sys
  coro)
if(UNIO_URING)
  list(APPEND unio_source_folders driver/uring)
endif()
list(TRANSFORM unio_source_folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1/*.cpp")
file(GLOB unio_sources CONFIGURE_DEPENDS ${unio_source_folders})
file(GLOB unio_testing_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/*.cpp")

if(NOT unio_sources)
  message(STATUS "unio: no sources in src/, nothing but the header check is set up")
  return()
endif()

add_library(unio_objects OBJECT ${unio_sources})
set_target_properties(unio_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden)
target_include_directories(unio_objects PRIVATE ${PROJECT_SOURCE_DIR}/include)
# A program takes what it uses.
target_compile_options(unio_objects PRIVATE -ffunction-sections -fdata-sections)
# What is exported may be inlined all the same.
target_compile_options(unio_objects PRIVATE -fno-semantic-interposition)
# g++ aligns targets of jumps and loops, which is 2 % of a program and no instruction less.
target_compile_options(unio_objects PRIVATE
  $<$<CXX_COMPILER_ID:GNU>:-fno-align-jumps> $<$<CXX_COMPILER_ID:GNU>:-fno-align-loops>
  $<$<CXX_COMPILER_ID:GNU>:-fno-align-labels>)
# Most programs have these sources (docs/decisions.md, "What a program weighs"). What runs once, after a
# failure, or beside a system call that blocks is made small; nothing asks for the types of the backends.
if(NOT UNIO_SANITIZE)
  set(unio_rare_sources core/error core/escaped core/failure driver/choose driver/engine/abandon
    driver/engine/closing driver/engine/fallback driver/engine/handover driver/engine/holding
    driver/engine/outer driver/epoll/direct_reads driver/pending driver/recording driver/registry
    driver/remains driver/uring/choosing driver/uring/news driver/uring/ring driver/workers
    handle/endpoint_text handle/mapped_file handle/opened handle/socket_options sys/direct_reads
    sys/sigpipe)
  set(unio_untyped_sources driver/epoll/epoll)
  if(UNIO_URING)
    list(APPEND unio_untyped_sources driver/uring/uring)
  endif()
  function(unio_compile_as options)
    list(TRANSFORM ARGN REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1.cpp")
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
  endfunction()
  unio_compile_as($<$<NOT:$<CONFIG:Debug>>:-Os> ${unio_rare_sources})
  unio_compile_as(-fno-rtti ${unio_untyped_sources})
endif()
# The only source that knows, so that a build directory can change between the two in seconds.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/driver/choose.cpp PROPERTIES
  COMPILE_DEFINITIONS UNIO_HAS_URING=$<BOOL:${UNIO_URING}>)
target_link_libraries(unio_objects PRIVATE unio_build Threads::Threads)
if(UNIO_TRACK_PENDING)
  target_compile_definitions(unio_objects PUBLIC UNIO_TRACK_PENDING=1)
endif()
if(UNIO_URING)
  target_link_libraries(unio_objects PRIVATE PkgConfig::unio_liburing)
endif()
# What nearly all sources have. All of unio.hpp takes longer to load than it saves.
set(unio_precompiled_headers <unio/handle.hpp> <unio/connect.hpp> <unio/multiplexer.hpp> <unio/executor.hpp>
  <algorithm> <cerrno>)
if(UNIO_PRECOMPILE)
  target_precompile_headers(unio_objects PRIVATE ${unio_precompiled_headers})
endif()

add_library(unio_static STATIC $<TARGET_OBJECTS:unio_objects>)
add_library(unio_shared SHARED $<TARGET_OBJECTS:unio_objects>)
foreach(library IN ITEMS unio_static unio_shared)
  add_library(unio::${library} ALIAS ${library})
  set_target_properties(${library} PROPERTIES OUTPUT_NAME unio LINKER_LANGUAGE CXX)
  target_compile_features(${library} INTERFACE cxx_std_23)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PRIVATE Threads::Threads)
  if(UNIO_TRACK_PENDING)
    target_compile_definitions(${library} PUBLIC UNIO_TRACK_PENDING=1) # it is part of promises and operations
  endif()
  if(UNIO_URING)
    target_link_libraries(${library} PRIVATE PkgConfig::unio_liburing)
  endif()
endforeach()

set_target_properties(unio_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${UNIO_ABI})
if(NOT UNIO_SANITIZE)
  target_link_options(unio_shared PRIVATE LINKER:--no-undefined) # a sanitizer's runtime is in the program
endif()

if(NOT UNIO_SANITIZE)
  target_link_options(unio_static INTERFACE LINKER:--gc-sections)
endif()

if(BUILD_SHARED_LIBS)
  add_library(unio::unio ALIAS unio_shared)
else()
  add_library(unio::unio ALIAS unio_static)
endif()

# unio_build_if_used(target...): within a project that does not install unio, built only if it is linked
function(unio_build_if_used)
  if(NOT PROJECT_IS_TOP_LEVEL AND NOT UNIO_INSTALL)
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()
unio_build_if_used(unio_objects unio_static unio_shared)

# It sees src/, whose symbols the shared library hides: hence the static one.
if(unio_testing_sources)
  add_library(unio_testing STATIC ${unio_testing_sources})
  add_library(unio::testing ALIAS unio_testing)
  set_target_properties(unio_testing PROPERTIES
    EXPORT_NAME testing
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(unio_testing PUBLIC unio_static PRIVATE $<BUILD_INTERFACE:unio_build>)
  if(UNIO_PRECOMPILE)
    target_precompile_headers(unio_testing REUSE_FROM unio_objects)
  endif()
  unio_build_if_used(unio_testing)

  # A library of its own: it takes the place of functions of the C library, and of a sanitizer's.
  if(NOT UNIO_SANITIZE AND NOT UNIO_NO_EXCEPTIONS)
    file(GLOB unio_threads_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/threads/*.cpp")
    add_library(unio_testing_threads STATIC ${unio_threads_sources})
    add_library(unio::testing_threads ALIAS unio_testing_threads)
    set_target_properties(unio_testing_threads PROPERTIES
      EXPORT_NAME testing_threads
      POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden)
    target_link_libraries(unio_testing_threads PUBLIC unio_testing
      PRIVATE $<BUILD_INTERFACE:unio_build> ${CMAKE_DL_LIBS})
    unio_build_if_used(unio_testing_threads)
  endif()

  # Functions of the C library over the table of system calls: to link, and with a simulated system from the
  # environment to preload (`unio simulate`). Without inline forms of what they define. Its calls enter the
  # kernel by themselves (src/sys/kernel_call.hpp), or they would arrive at its own syscall().
  if(NOT UNIO_SANITIZE AND NOT UNIO_NO_EXCEPTIONS AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    file(GLOB unio_libc_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/libc/*.cpp")
    file(GLOB unio_preload_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/testing/preload/*.cpp")
    add_library(unio_testing_libc STATIC ${unio_libc_sources})
    add_library(unio::testing_libc ALIAS unio_testing_libc)
    set_target_properties(unio_testing_libc PROPERTIES
      EXPORT_NAME testing_libc
      POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden)
    target_link_libraries(unio_testing_libc PUBLIC unio_testing
      PRIVATE $<BUILD_INTERFACE:unio_build> ${CMAKE_DL_LIBS})
    add_library(unio_simulate MODULE ${unio_preload_sources})
    set_target_properties(unio_simulate PROPERTIES
      OUTPUT_NAME unio_simulate
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools/unio
      CXX_VISIBILITY_PRESET hidden)
    target_link_libraries(unio_simulate PRIVATE unio_build
      $<LINK_LIBRARY:WHOLE_ARCHIVE,unio_testing_libc> $<LINK_LIBRARY:WHOLE_ARCHIVE,unio_testing_threads>
      ${CMAKE_DL_LIBS})
    # Of the program's own unio it takes no place.
    target_link_options(unio_simulate PRIVATE LINKER:--as-needed LINKER:--no-undefined
      LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/testing/preload/exported.map)
    add_executable(unio_stage ${PROJECT_SOURCE_DIR}/src/testing/stage/main.cpp)
    set_target_properties(unio_stage PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools/unio
      POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(unio_stage PRIVATE unio_build ${CMAKE_DL_LIBS})
    foreach(target IN ITEMS unio_testing_libc unio_simulate unio_stage)
      target_compile_options(${target} PRIVATE -U_FORTIFY_SOURCE)
      unio_build_if_used(${target})
    endforeach()
  endif()
endif()
