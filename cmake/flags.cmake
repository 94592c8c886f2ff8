# Flags for building unio itself. None of them reaches a program that uses unio.

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Every object must agree on these, the standard library's inline code included.
if(UNIO_SANITIZE)
  add_compile_options(-fsanitize=${UNIO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${UNIO_SANITIZE})
endif()

if(UNIO_LIBCXX)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-stdlib=libc++>)
  add_link_options(-stdlib=libc++)
endif()

# unio_warnings: for all that is compiled here.
add_library(unio_warnings INTERFACE)
target_compile_options(unio_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  -Wno-missing-field-initializers) # a designated initializer leaves members out on purpose
if(UNIO_WARNINGS_AS_ERRORS)
  target_compile_options(unio_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Guesses of the optimizer, which are often wrong about coroutine frames: shown, never fatal.
    target_compile_options(unio_warnings INTERFACE
      -Wno-error=array-bounds -Wno-error=dangling-pointer -Wno-error=maybe-uninitialized -Wno-error=restrict
      -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=use-after-free)
  endif()
endif()

# unio_build: the library, its testing support and its tests, which share inline code and so must agree.
add_library(unio_build INTERFACE)
target_link_libraries(unio_build INTERFACE unio_warnings)
target_compile_features(unio_build INTERFACE cxx_std_23)
target_include_directories(unio_build INTERFACE ${PROJECT_SOURCE_DIR}/src)
# Inline code of the library has them, so that all who share it must agree.
if(UNIO_PROBES)
  target_compile_definitions(unio_build INTERFACE UNIO_PROBES=1)
endif()
if(UNIO_NO_EXCEPTIONS)
  target_compile_options(unio_build INTERFACE -fno-exceptions -fno-rtti)
endif()
