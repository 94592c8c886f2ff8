# unio_unite(<target>): neighbours in a folder of its sources are compiled together, up to UNIO_UNITE bytes of
# them. Alone, each reads headers and instantiates templates for about as long as its own code takes. Names in
# the anonymous namespaces of one folder must therefore differ. A source with options of its own stays alone.

set(UNIO_UNITE 60000 CACHE STRING "How many bytes of sources are compiled together; 0: each source alone")
if(NOT UNIO_UNITE MATCHES "^[0-9]+$")
  message(FATAL_ERROR "unio: UNIO_UNITE is \"${UNIO_UNITE}\", which is not a number of bytes")
endif()

function(unio_unite target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\$<")
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    file(SIZE ${source} size)
    math(EXPR bytes_${folder} "0${bytes_${folder}} + ${size}")
    if(NOT DEFINED group_${folder} OR bytes_${folder} GREATER UNIO_UNITE)
      math(EXPR group_${folder} "0${group_${folder}} + 1")
      set(bytes_${folder} ${size})
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group_${folder}})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # To g++ what is united is included, as a header is, and names without linkage in headers are suspect.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
