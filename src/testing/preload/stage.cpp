// Several programs in one simulation: threads of one process, which share the C library and the simulated
// system. Their executables are loaded as libraries are.
//
//   copy        without the mark that an executable is no library (DF_1_PIE)
//   load        on the thread that will be the program's first
//   its TLS     where the linker has laid it out: at the end of the block of the main program, which is kept
//               free for that (stage_main.cpp). A thread belongs to one program, so that they may overlap
//   its main    is what its entry gives __libc_start_main()

#include "testing/libc/entry.hpp"
#include "testing/threads/scheduler.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ios>
#include <string>
#include <string_view>
#include <vector>

namespace unio::inline v0_1::testing::preload {
namespace {

using namespace threads;

struct program {
  int number = 0;
  std::vector<char*> arguments; // with a null at the end
  std::string image;
  std::string path;
  Elf64_Phdr const* tls = nullptr; // in image
  link_map* map = nullptr;
  bool has_loaded = false;
  bool has_ended = false;
  int status = 0;
};

// Never destroyed: their threads go on until the process ends.
std::vector<program*>& programs() noexcept {
  static auto* const all = new std::vector<program*>;
  return *all;
}

constexpr std::size_t most_tls = 65536; // as stage_main.cpp keeps free

[[noreturn]] void cannot(std::string const& line) noexcept {
  if (libc::end_refused != nullptr) libc::end_refused(line);
  std::abort();
}

Elf64_Ehdr const& header_of(program const& p) noexcept {
  return *reinterpret_cast<Elf64_Ehdr const*>(p.image.data());
}
Elf64_Phdr const* segment_of(program const& p, std::uint32_t type) noexcept {
  Elf64_Ehdr const& h = header_of(p);
  auto const* const all = reinterpret_cast<Elf64_Phdr const*>(p.image.data() + h.e_phoff);
  auto const* const end = all + h.e_phnum;
  auto const* const found = std::find_if(all, end, [&](Elf64_Phdr const& s) { return s.p_type == type; });
  return found != end ? found : nullptr;
}

// The system's file, whatever is simulated.
std::string contents_of(std::string const& path) {
  auto const fd = static_cast<int>(libc::raw(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (fd < 0) cannot(path + ": " + std::strerror(-fd));
  std::string all;
  char some[16384];
  for (std::int64_t n; (n = libc::raw(SYS_read, fd, some, sizeof some)) > 0;)
    all.append(some, static_cast<std::size_t>(n));
  (void)libc::raw(SYS_close, fd);
  return all;
}

void read_image(program& p) {
  p.image = contents_of(p.path);
  bool const is_elf = p.image.size() > sizeof(Elf64_Ehdr) && p.image.starts_with(ELFMAG) &&
                      p.image[EI_CLASS] == ELFCLASS64 && header_of(p).e_machine == EM_X86_64;
  if (!is_elf) cannot(p.path + ": no program of this machine; a script cannot be one of several");
  if (header_of(p).e_type != ET_DYN || segment_of(p, PT_INTERP) == nullptr)
    cannot(p.path + ": a program that is not position independent (-fPIE -pie) cannot be one of several");
  p.tls = segment_of(p, PT_TLS);
  if (p.tls != nullptr && p.tls->p_memsz + p.tls->p_align > most_tls)
    cannot(p.path + ": it has too many objects with thread storage duration");
  Elf64_Phdr const* const dynamic = segment_of(p, PT_DYNAMIC);
  if (dynamic == nullptr) cannot(p.path + ": it has no dynamic section");
  auto* const entries = reinterpret_cast<Elf64_Dyn*>(p.image.data() + dynamic->p_offset);
  for (std::size_t i = 0; i != dynamic->p_filesz / sizeof(Elf64_Dyn) && entries[i].d_tag != DT_NULL; ++i)
    if (entries[i].d_tag == DT_FLAGS_1) entries[i].d_un.d_val &= ~std::uint64_t{DF_1_PIE};
}

// The dynamic linker maps it from here.
int copy_of(program const& p) noexcept {
  auto const fd = static_cast<int>(libc::raw(SYS_memfd_create, p.path.c_str(), MFD_CLOEXEC));
  std::size_t done = 0;
  while (fd >= 0 && done < p.image.size()) {
    std::int64_t const n = libc::raw(SYS_write, fd, p.image.data() + done, p.image.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (fd < 0 || done != p.image.size()) cannot(p.path + ": no memory for a copy");
  libc::keep_internal(fd);
  return fd;
}

// Variant II of thread-local storage (Drepper: ELF Handling For Thread-Local Storage): the main program's
// block ends at the thread pointer.
void set_up_tls(program const& p) noexcept {
  if (p.tls == nullptr) return;
  std::uint64_t const align = std::max<std::uint64_t>(1, p.tls->p_align);
  std::uint64_t const size = (p.tls->p_memsz + align - 1) / align * align;
  auto* const end = reinterpret_cast<std::byte*>(__builtin_thread_pointer());
  std::memset(end - size, 0, size);
  std::memcpy(end - size, p.image.data() + p.tls->p_offset, p.tls->p_filesz);
}

program* of_this_thread() noexcept {
  return me != nullptr && me->program >= 0 ? programs()[static_cast<std::size_t>(me->program)] : nullptr;
}

// Static objects' destructors and what atexit() was given: both hang on the object's own end.
void finish(program const& p) noexcept {
  Elf64_Dyn const* fini_array = nullptr;
  std::size_t count = 0;
  for (Elf64_Dyn const* d = p.map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_FINI_ARRAY) fini_array = d;
    if (d->d_tag == DT_FINI_ARRAYSZ) count = d->d_un.d_val / sizeof(void (*)());
  }
  if (fini_array == nullptr) return;
  auto* const functions = reinterpret_cast<void (**)()>(p.map->l_addr + fini_array->d_un.d_ptr);
  while (count-- != 0) functions[count]();
}

[[noreturn]] void end_at_once(program& p, int status) noexcept {
  p.status = status;
  p.has_ended = true;
  current->end_program();
}
[[noreturn]] void end_program(program& p, int status) noexcept {
  finish(p);
  (void)std::fflush(nullptr);
  end_at_once(p, status);
}

[[noreturn]] void enter(program const& p) noexcept {
  std::vector<char*> words;
  words.push_back(reinterpret_cast<char*>(p.arguments.size() - 1));
  words.insert(words.end(), p.arguments.begin(), p.arguments.end());
  for (char** e = environ; *e != nullptr; ++e) words.push_back(*e);
  words.insert(words.end(), 4, nullptr); // the end of the environment; an empty auxiliary vector
  auto* const stack =
      static_cast<char**>(__builtin_alloca_with_align((words.size() + 2) * sizeof(char*), 128));
  std::copy(words.begin(), words.end(), stack);
  std::uint64_t const entry = p.map->l_addr + header_of(p).e_entry;
  __asm__ volatile("mov %0, %%rsp\n\txor %%edx, %%edx\n\txor %%ebp, %%ebp\n\tjmp *%1"
                   :
                   : "r"(stack), "r"(entry)
                   : "rdx", "memory");
  __builtin_unreachable();
}

void* begin_program(void* argument) {
  auto& p = *static_cast<program*>(argument);
  me->program = p.number;
  set_up_tls(p);
  std::string const copy = "/proc/self/fd/" + std::to_string(copy_of(p));
  ++libc::depth; // what the dynamic linker opens is real; what static objects do is the program's
  void* const handle = ::dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  --libc::depth;
  if (handle == nullptr) cannot(p.path + ": " + ::dlerror());
  p.map = static_cast<link_map*>(handle);
  p.has_loaded = true;
  enter(p);
}

} // namespace

using main_function = int(int, char**, char**);

extern "C" [[gnu::visibility("default"), gnu::used]] int unio_simulate_stage(int argc, char** argv);

/// "PATH PROGRAM ARGUMENTS… :: PATH PROGRAM ARGUMENTS…", PATH being where PROGRAM is: each is begun when
/// those before have nothing to do. Ends with the last of them.
int unio_simulate_stage(int argc, char** argv) {
  programs().push_back(new program);
  for (int i = 1; i != argc; ++i) {
    if (argv[i] == std::string_view("::")) {
      programs().push_back(new program);
      programs().back()->number = static_cast<int>(programs().size()) - 1;
    } else {
      programs().back()->arguments.push_back(argv[i]);
    }
  }
  for (program* const p : programs()) {
    p->path = p->arguments.front();
    p->arguments.erase(p->arguments.begin());
    p->arguments.push_back(nullptr);
    read_image(*p);
  }
  on_begin_thread = [](thread&) noexcept {
    if (program const* const p = of_this_thread(); p != nullptr) set_up_tls(*p);
  };
  // Programs have copies of std::cout and its kin (R_X86_64_COPY), made before anything of theirs runs.
  static auto* const streams = new std::ios_base::Init;
  (void)streams;
  for (program* const p : programs()) {
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, begin_program, p) != 0) cannot(p->path + ": no thread");
    while (!p->has_loaded) ::usleep(1000); // one at a time has the dynamic linker
    // In parts: threads may be slow, and time then goes on without one.
    for (int i = 0; p != programs().back() && i != 20; ++i) ::usleep(50'000);
  }
  while (!programs().back()->has_ended) (void)current->block(need::program, nullptr, never);
  auto const failed = std::ranges::find_if(programs(), [](program const* p) { return p->status != 0; });
  return failed != programs().end() ? (*failed)->status : 0;
}

// ---- what takes the place of the C library's

UNIO_IN_PLACE(int, __libc_start_main,
              (main_function * main, int argc, char** argv, void (*init)(), void (*fini)(), void (*end)(),
               void* stack)) {
  if (program* const p = of_this_thread(); p != nullptr) end_program(*p, main(argc, argv, environ));
  using start = int(main_function*, int, char**, void (*)(), void (*)(), void (*)(), void*);
  void* own = dlvsym(RTLD_NEXT, "__libc_start_main", "GLIBC_2.34");
  if (own == nullptr) own = dlsym(RTLD_NEXT, "__libc_start_main");
  return reinterpret_cast<start*>(own)(main, argc, argv, init, fini, end, stack);
}

// Without destructors and what standard streams have kept: of that program alone.
UNIO_IN_PLACE(void, _exit, (int status)) {
  if (program* const p = of_this_thread(); p != nullptr) end_at_once(*p, status);
  for (;;) (void)libc::raw(SYS_exit_group, status);
}
UNIO_ALSO(void, _Exit, (int status), _exit, (status))
UNIO_IN_PLACE(void, quick_exit, (int status)) {
  if (program* const p = of_this_thread(); p != nullptr) end_at_once(*p, status);
  libc::own<void(int)>("quick_exit")(status);
}

UNIO_IN_PLACE(void, exit, (int status)) {
  if (program* const p = of_this_thread(); p != nullptr) end_program(*p, status);
  reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, "exit"))(status);
}

} // namespace unio::testing::preload
