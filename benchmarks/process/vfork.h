// The least that launches a program, in C.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// Runs a program without arguments. Its status as waitpid(2) gives it, or a negative errno.
int run_by_vfork(const char* program);

#ifdef __cplusplus
}
#endif
