// Several programs in one simulation: threads of one process, which share the C library and the simulated
// system. Their executables are loaded as libraries are.
//
//   copy        without the mark that an executable is no library (DF_1_PIE), and of its libraries too, so
//               that their objects are the program's own: but for those that this process has from its start
//   load        on the thread that will be the program's first
//   its copies  of libraries' objects (R_X86_64_COPY), which the dynamic linker would take from themselves in
//               what is loaded late: made by what chooses __libc_start_main() (STT_GNU_IFUNC), after the
//               libraries are relocated and before a constructor runs
//   its TLS     where the linker has laid it out: at the end of the block of the main program, which is kept
//               free for that (stage_main.cpp). A thread belongs to one program, so that they may overlap
//   its main    is what its entry gives __libc_start_main(), which calls the constructors of its objects
//               first, as in a program: the linker would call them in dlopen(), with its lock, for which
//               other threads wait

#include "testing/libc/entry.hpp"
#include "testing/threads/scheduler.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <getopt.h>
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
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace unio::inline v0_1::testing::preload {
namespace {

using namespace threads;

// A file, as the dynamic linker maps it.
struct image {
  std::string path;
  std::string bytes;
  std::string number; // of a descriptor that has the copy
};

// What an executable has of a library's object.
struct copied_object {
  char const* name; // in its image
  std::uint64_t at;
  std::size_t size;
};

struct program : image {
  int number_of_all = 0;
  std::vector<char*> arguments;                        // with a null at the end
  std::map<std::string, image, std::less<>> libraries; // by the names by which they are needed
  std::vector<copied_object> copies;
  std::vector<std::pair<void*, copied_object>> of_getopt; // with the C library's
  bool has_parsed = false;
  std::uint64_t init = 0; // constructors
  std::uint64_t init_array = 0;
  std::size_t init_array_size = 0;
  Elf64_Phdr const* tls = nullptr; // in bytes
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

Elf64_Ehdr const& header_of(image const& i) noexcept {
  return *reinterpret_cast<Elf64_Ehdr const*>(i.bytes.data());
}
template <class Is> Elf64_Phdr const* find_segment(image const& i, Is is) noexcept {
  Elf64_Ehdr const& h = header_of(i);
  auto const* const all = reinterpret_cast<Elf64_Phdr const*>(i.bytes.data() + h.e_phoff);
  auto const* const found = std::find_if(all, all + h.e_phnum, is);
  return found != all + h.e_phnum ? found : nullptr;
}
Elf64_Phdr const* segment_of(image const& i, std::uint32_t type) noexcept {
  return find_segment(i, [type](Elf64_Phdr const& s) { return s.p_type == type; });
}

// Where the file has what lies at that address; null: nowhere.
template <class T> T* in_file(image& i, std::uint64_t address) noexcept {
  Elf64_Phdr const* const s = find_segment(i, [address](Elf64_Phdr const& one) {
    return one.p_type == PT_LOAD && address >= one.p_vaddr && address - one.p_vaddr < one.p_filesz;
  });
  return s != nullptr ? reinterpret_cast<T*>(i.bytes.data() + s->p_offset + (address - s->p_vaddr)) : nullptr;
}

// The entry of that kind which follows `after` (null: the first); null: there is none.
Elf64_Dyn* entry_of(image& i, std::int64_t tag, Elf64_Dyn const* after = nullptr) noexcept {
  Elf64_Phdr const* const dynamic = segment_of(i, PT_DYNAMIC);
  if (dynamic == nullptr) return nullptr;
  auto* const all = reinterpret_cast<Elf64_Dyn*>(i.bytes.data() + dynamic->p_offset);
  std::size_t const n = dynamic->p_filesz / sizeof(Elf64_Dyn);
  for (std::size_t at = after != nullptr ? static_cast<std::size_t>(after - all) + 1 : 0;
       at < n && all[at].d_tag != DT_NULL; ++at)
    if (all[at].d_tag == tag) return all + at;
  return nullptr;
}
template <class T> T* table_of(image& i, std::int64_t tag) noexcept {
  Elf64_Dyn const* const d = entry_of(i, tag);
  return d != nullptr ? in_file<T>(i, d->d_un.d_ptr) : nullptr;
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

// Reads it, for the copy that the dynamic linker maps: its descriptor, of a number that is none of the
// program's, is there before what names it.
void read_image(image& i, std::string path) {
  constexpr int high = 700;
  i.path = std::move(path);
  i.bytes = contents_of(i.path);
  auto const made = static_cast<int>(libc::raw(SYS_memfd_create, i.path.c_str(), MFD_CLOEXEC));
  auto const moved = static_cast<int>(libc::raw(SYS_fcntl, made, F_DUPFD_CLOEXEC, high));
  if (made < 0) cannot(i.path + ": no memory for a copy");
  if (moved >= 0) (void)libc::raw(SYS_close, made);
  int const fd = moved >= 0 ? moved : made;
  libc::keep_internal(fd);
  i.number = std::to_string(fd);
}
std::string name_of(image const& i) { return "/proc/self/fd/" + i.number; }

void write_copy(image const& i) noexcept {
  int const fd = std::atoi(i.number.c_str());
  std::size_t done = 0;
  while (done < i.bytes.size()) {
    std::int64_t const n = libc::raw(SYS_write, fd, i.bytes.data() + done, i.bytes.size() - done);
    if (n <= 0) cannot(i.path + ": no memory for a copy");
    done += static_cast<std::size_t>(n);
  }
}

// It needs the program's copies: by their numbers, for which the linker looks in /proc/self/fd, too, as
// `unio simulate` asks it to.
void rename_needed(image& i, program const& p) noexcept {
  char* const names = table_of<char>(i, DT_STRTAB);
  for (Elf64_Dyn const* d = nullptr; names != nullptr && (d = entry_of(i, DT_NEEDED, d)) != nullptr;) {
    char* const name = names + d->d_un.d_val;
    auto const found = p.libraries.find(std::string_view(name));
    if (found != p.libraries.end() && found->second.number.size() <= found->first.size())
      std::strcpy(name, found->second.number.c_str());
  }
}

// But for those of libraries that this process has from its start: the linker finds them first.
void take_copies(program& p) {
  Elf64_Dyn const* const size = entry_of(p, DT_RELASZ);
  auto* const all = table_of<Elf64_Rela>(p, DT_RELA);
  auto const* const symbols = table_of<Elf64_Sym const>(p, DT_SYMTAB);
  char const* const names = table_of<char const>(p, DT_STRTAB);
  if (size == nullptr || all == nullptr || symbols == nullptr || names == nullptr) return;
  for (Elf64_Rela* r = all; r != all + size->d_un.d_val / sizeof *r; ++r) {
    if (ELF64_R_TYPE(r->r_info) != R_X86_64_COPY) continue;
    Elf64_Sym const& s = symbols[ELF64_R_SYM(r->r_info)];
    copied_object const copy{names + s.st_name, r->r_offset, s.st_size};
    if (void* const own = dlsym(RTLD_DEFAULT, copy.name); own != nullptr) {
      for (char const* const name : {"optarg", "optind", "opterr", "optopt"})
        if (std::strcmp(name, copy.name) == 0) p.of_getopt.emplace_back(own, copy);
      continue;
    }
    p.copies.push_back(copy);
    r->r_info = ELF64_R_INFO(0, R_X86_64_NONE);
  }
}

// The linker is to leave them alone.
void take_constructors(program& p) noexcept {
  auto const take = [&p](std::int64_t tag, auto& value) {
    Elf64_Dyn* const d = entry_of(p, tag);
    if (d == nullptr) return;
    value = d->d_un.d_ptr;
    d->d_tag = DT_DEBUG; // which it looks at in no library
  };
  take(DT_INIT, p.init);
  take(DT_INIT_ARRAY, p.init_array);
  take(DT_INIT_ARRAYSZ, p.init_array_size);
}

void call_constructors(program const& p, int argc, char** argv) {
  using constructor = void(int, char**, char**);
  if (p.init != 0) reinterpret_cast<constructor*>(p.map->l_addr + p.init)(argc, argv, environ);
  auto* const all = reinterpret_cast<constructor**>(p.map->l_addr + p.init_array);
  for (std::size_t i = 0; i != p.init_array_size / sizeof *all; ++i) all[i](argc, argv, environ);
}

// `libraries`: lines "name=path".
void read_program(program& p, std::string_view libraries) {
  read_image(p, p.arguments.front());
  bool const is_elf = p.bytes.size() > sizeof(Elf64_Ehdr) && p.bytes.starts_with(ELFMAG) &&
                      p.bytes[EI_CLASS] == ELFCLASS64 && header_of(p).e_machine == EM_X86_64;
  if (!is_elf) cannot(p.path + ": no program of this machine; a script cannot be one of several");
  if (header_of(p).e_type != ET_DYN || segment_of(p, PT_INTERP) == nullptr)
    cannot(p.path + ": a program that is not position independent (-fPIE -pie) cannot be one of several");
  p.tls = segment_of(p, PT_TLS);
  if (p.tls != nullptr && p.tls->p_memsz + p.tls->p_align > most_tls)
    cannot(p.path + ": it has too many objects with thread storage duration");
  if (Elf64_Dyn* const flags = entry_of(p, DT_FLAGS_1); flags != nullptr)
    flags->d_un.d_val &= ~std::uint64_t{DF_1_PIE};
  take_copies(p);
  take_constructors(p);
  while (!libraries.empty()) {
    std::string const line(libraries.substr(0, libraries.find('\n')));
    libraries.remove_prefix(line.size() + 1);
    std::string const name = line.substr(0, line.find('='));
    if (void* const own = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD); own != nullptr) {
      (void)::dlclose(own);
    } else {
      read_image(p.libraries[name], line.substr(name.size() + 1));
    }
  }
  rename_needed(p, p);
  write_copy(p);
  for (auto& [name, library] : p.libraries) {
    rename_needed(library, p);
    write_copy(library);
  }
}

// What a library defines by that name, by its hash table; null: nothing.
Elf64_Sym const* symbol_of(link_map const& m, std::string_view name) noexcept {
  std::uint32_t const* table = nullptr;
  Elf64_Sym const* symbols = nullptr;
  char const* names = nullptr;
  for (Elf64_Dyn const* d = m.l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_GNU_HASH) table = reinterpret_cast<std::uint32_t const*>(d->d_un.d_ptr);
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<Elf64_Sym const*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) names = reinterpret_cast<char const*>(d->d_un.d_ptr);
  }
  if (table == nullptr || symbols == nullptr || names == nullptr) return nullptr;
  std::uint32_t hash = 5381;
  for (char const c : name) hash = hash * 33 + static_cast<std::uint8_t>(c);
  std::uint32_t const count = table[0], first = table[1], words = table[2];
  std::uint32_t const* const buckets = table + 4 + 2 * std::size_t{words};
  std::uint32_t i = buckets[hash % count];
  if (i < first) return nullptr;
  for (std::uint32_t const* chain = buckets + count + (i - first);; ++chain, ++i) {
    if ((*chain | 1) == (hash | 1) && symbols[i].st_shndx != SHN_UNDEF && name == names + symbols[i].st_name)
      return symbols + i;
    if ((*chain & 1) != 0) return nullptr;
  }
}

link_map const* map_of(image const& i) noexcept {
  link_map const* m = _r_debug.r_map;
  while (m != nullptr && m->l_name != name_of(i)) m = m->l_next;
  return m;
}

constinit program* loading = nullptr;

// In the middle of dlopen(): what is loaded can be looked at, and no function of the linker called.
void make_copies(program const& p) noexcept {
  link_map const* const own = map_of(p);
  for (copied_object const& c : p.copies) {
    bool is_made = false;
    for (auto const& [name, library] : p.libraries) {
      link_map const* const m = map_of(library);
      Elf64_Sym const* const s = m != nullptr && own != nullptr ? symbol_of(*m, c.name) : nullptr;
      if (s == nullptr || is_made) continue;
      std::memcpy(reinterpret_cast<void*>(own->l_addr + c.at),
                  reinterpret_cast<void const*>(m->l_addr + s->st_value), std::min(c.size, s->st_size));
      is_made = true;
    }
    if (!is_made) cannot(p.path + ": which of its libraries has the object " + c.name + " is not known");
  }
}

// Variant II of thread-local storage (Drepper: ELF Handling For Thread-Local Storage): the main program's
// block ends at the thread pointer.
void set_up_tls(program const& p) noexcept {
  if (p.tls == nullptr) return;
  std::uint64_t const align = std::max<std::uint64_t>(1, p.tls->p_align);
  std::uint64_t const size = (p.tls->p_memsz + align - 1) / align * align;
  auto* const end = reinterpret_cast<std::byte*>(__builtin_thread_pointer());
  std::memset(end - size, 0, size);
  std::memcpy(end - size, p.bytes.data() + p.tls->p_offset, p.tls->p_filesz);
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
  if (p.map == nullptr) cannot(p.path + ": a library of it ends it before it begins");
  p.status = status;
  p.has_ended = true;
  current->end_program();
}
[[noreturn]] void end_program(program& p, int status) noexcept {
  if (p.map != nullptr) finish(p);
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

// getopt()'s, of the C library.
struct getopt_variables {
  char* argument = nullptr;
  int index = 1, prints = 1, option = '?';
};
getopt_variables exchange_variables(getopt_variables const& v) noexcept {
  return {.argument = std::exchange(optarg, v.argument),
          .index = std::exchange(optind, v.index),
          .prints = std::exchange(opterr, v.prints),
          .option = std::exchange(optopt, v.option)};
}

void* begin_program(void* argument) {
  auto& p = *static_cast<program*>(argument);
  me->program = p.number_of_all;
  set_up_tls(p);
  loading = &p;
  ++libc::depth; // what its libraries open first is real, as in a program alone
  ++me->stays;   // others would wait for the linker's lock
  getopt_variables const others = exchange_variables({});
  void* const handle = ::dlopen(name_of(p).c_str(), RTLD_NOW | RTLD_LOCAL);
  (void)exchange_variables(others);
  --me->stays;
  --libc::depth;
  loading = nullptr;
  if (handle == nullptr) cannot(p.path + ": " + ::dlerror());
  p.map = static_cast<link_map*>(handle);
  p.has_loaded = true;
  enter(p);
}

} // namespace

using main_function = int(int, char**, char**);

extern "C" [[gnu::visibility("default"), gnu::used]] int unio_simulate_stage(int argc, char** argv);

/// "PATH LIBRARIES PROGRAM ARGUMENTS… :: PATH …", PATH being where PROGRAM is, and LIBRARIES lines
/// "name=path" of what it is linked with: each is begun when those before have nothing to do. Ends with the
/// last of them.
int unio_simulate_stage(int argc, char** argv) {
  libc::are_several = true;
  programs().push_back(new program);
  for (int i = 1; i != argc; ++i) {
    if (argv[i] == std::string_view("::")) {
      programs().push_back(new program);
      programs().back()->number_of_all = static_cast<int>(programs().size()) - 1;
    } else {
      programs().back()->arguments.push_back(argv[i]);
    }
  }
  for (program* const p : programs()) {
    std::string_view const libraries = p->arguments[1];
    read_program(*p, libraries);
    p->arguments.erase(p->arguments.begin(), p->arguments.begin() + 2);
    p->arguments.push_back(nullptr);
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
  (void)std::fflush(nullptr);
  // Without destructors, also of libraries: they might join threads of a program that has ended.
  for (;;) (void)libc::raw(SYS_exit_group, failed != programs().end() ? (*failed)->status : 0);
}

// ---- what takes the place of the C library's

namespace {

using start_function = int(main_function*, int, char**, void (*)(), void (*)(), void (*)(), void*);

int start_main(main_function* main, int argc, char** argv, void (*init)(), void (*fini)(), void (*end)(),
               void* stack) {
  if (program* const p = of_this_thread(); p != nullptr) {
    call_constructors(*p, argc, argv);
    end_program(*p, main(argc, argv, environ));
  }
  void* own = dlvsym(RTLD_NEXT, "__libc_start_main", "GLIBC_2.34");
  if (own == nullptr) own = dlsym(RTLD_NEXT, "__libc_start_main");
  return reinterpret_cast<start_function*>(own)(main, argc, argv, init, fini, end, stack);
}

} // namespace

// Called by the dynamic linker, for each program: of the first one before anything of this library runs.
extern "C" [[gnu::used]] start_function* unio_simulate_start() noexcept {
  if (loading != nullptr) make_copies(*loading);
  return start_main;
}
extern "C"
    [[gnu::visibility("default"), gnu::used,
      gnu::ifunc("unio_simulate_start")]] start_function in_place_of_libc_start_main asm("__libc_start_main");

namespace {

// The C library's variables have the program's values in the call, and the program's copies what they are
// after.
template <class F, class... A> int parse(char const* name, A... a) {
  program* const p = of_this_thread();
  if (p == nullptr) return libc::own<F>(name)(a...);
  bool const is_first = !std::exchange(p->has_parsed, true);
  if (is_first) (void)exchange_variables({});
  auto const at = [p](copied_object const& c) { return reinterpret_cast<void*>(p->map->l_addr + c.at); };
  for (auto const& [own, copy] : p->of_getopt) std::memcpy(own, at(copy), copy.size);
  if (is_first && optind == 1) optind = 0; // which forgets another program's words
  int const r = libc::own<F>(name)(a...);
  for (auto const& [own, copy] : p->of_getopt) std::memcpy(at(copy), own, copy.size);
  return r;
}

} // namespace

UNIO_IN_PLACE(int, getopt, (int n, char* const* words, char const* known)) {
  return parse<int(int, char* const*, char const*)>("getopt", n, words, known);
}
using parse_long = int(int, char* const*, char const*, struct option const*, int*);
UNIO_IN_PLACE(int, getopt_long,
              (int n, char* const* words, char const* known, struct option const* all, int* index)) {
  return parse<parse_long>("getopt_long", n, words, known, all, index);
}
UNIO_IN_PLACE(int, getopt_long_only,
              (int n, char* const* words, char const* known, struct option const* all, int* index)) {
  return parse<parse_long>("getopt_long_only", n, words, known, all, index);
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
