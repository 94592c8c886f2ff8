/* Several entities as one: sort_and_merge() (src/locks/shared_fs_mutex.cpp) and the loops of all four implementations. Three users, each with
 * a request for some of three entities, unsorted, with duplicates, shared or not; all or none. One may give up.
 *
 *   all locked    who is inside has each entity of its request, alone if that was asked for once
 *   no deadlock   an invalid end state otherwise
 *   no livelock   everybody is served; weakly fair (with LIVE)
 *
 *   run
 *   run     -DLIVE
 *
 *   BUG=1   entities are taken in the order of the request
 *   BUG=2   after a duplicate the others are forgotten (L2)
 *   BUG=3   of duplicates the first says whether it is shared
 *   BUG=4   who gives up keeps what it had already
 *   BUG=5   in the order of the request; who finds one locked lets all go and begins again (L9) [-DLIVE]
 */
#ifndef BUG
#define BUG 0
#endif
#define NONE 7

byte owner[3] = NONE;
byte sharers[3];
byte finished;
bool gave_up;

/* An entity: its number, + 4 if it is to be shared. */
typedef request { byte e[3] };
#define number(x) (x & 3)
#define is_shared(x) (x > 3)

inline ask(a, b, c) { r.e[0] = a; r.e[1] = b; r.e[2] = c }

inline swap(i, j) {
  if :: number(l.e[i]) > number(l.e[j]) -> x = l.e[i]; l.e[i] = l.e[j]; l.e[j] = x :: else fi
}

inline canonicalize() {
  l.e[0] = r.e[0]; l.e[1] = r.e[1]; l.e[2] = r.e[2];
#if BUG != 1 && BUG != 5
  swap(0, 1); swap(1, 2); swap(0, 1);
#endif
  kept = 0; i = 1;
  do
  :: i == 3 -> break
  :: i < 3 && number(l.e[i]) == number(l.e[kept]) ->
#if BUG != 3
    l.e[kept] = number(l.e[kept]) + (is_shared(l.e[kept]) && is_shared(l.e[i]) -> 4 : 0);
#endif
    i++;
#if BUG == 2
    break
#endif
  :: i < 3 && number(l.e[i]) != number(l.e[kept]) -> kept++; l.e[kept] = l.e[i]; i++
  od;
  size = kept + 1;
  kept = 0; i = 0; x = 0
}

#define current l.e[at]
#define is_free (owner[number(current)] == NONE && (is_shared(current) || sharers[number(current)] == 0))

inline take() {
  if
  :: is_shared(current) -> sharers[number(current)]++
  :: else -> owner[number(current)] = _pid
  fi;
  at++
}

inline let_go() {
  do
  :: at == 0 -> break
  :: else ->
    at--;
    d_step { if :: is_shared(current) -> sharers[number(current)]-- :: else -> owner[number(current)] = NONE fi }
  od
}

inline check_one(i) {
  assert(is_shared(r.e[i]) && sharers[number(r.e[i])] != 0 || owner[number(r.e[i])] == _pid)
}

active [3] proctype user() {
  request r, l;
  byte i, kept, x, size, at;
  atomic {
    if
    :: _pid == 0 -> if :: ask(0, 1, 1) :: ask(1, 0, 2) :: ask(4, 1, 0) fi
    :: _pid == 1 -> if :: ask(2, 1, 0) :: ask(1, 5, 2) :: ask(6, 6, 1) fi
    :: _pid == 2 -> if :: ask(0, 2, 0) :: ask(2, 4, 4) :: ask(1, 1, 4) fi
    fi;
    canonicalize()
  };
  do
  :: at == size -> break
  :: atomic { at < size && is_free -> take() }
#if BUG == 5
  :: at < size && !is_free -> let_go()
#endif
  :: atomic { at < size && !is_free && !gave_up -> gave_up = true };
#if BUG != 4
    let_go();
#endif
    goto gone
  od;
  atomic { check_one(0); check_one(1); check_one(2) };
  let_go();
gone:
  finished++
}

#ifdef LIVE
ltl served { <> (finished == 3) }
#endif
