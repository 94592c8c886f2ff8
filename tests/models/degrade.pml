/* A user that cannot see the map of memory_map comes and goes (src/locks/memory_map.cpp, degrading): one slot.
 *
 * Users 0 and 1 see the map, 2 does not. Each opens the file, locks the slot, alone or shared, closes the file, ROUNDS times, the first
 * LOCKS times each; up to DEATHS die between any two steps. How the slot is locked in the map is shown by map.pml; here it is waiting
 * until it can be had.
 *
 *   exclusion   nobody else is inside with one that is alone, whichever way they locked
 *   told        of the death of an owner that sees the map the next owner is told; if that does not see the map, so is the one after it
 *   no stuck    everybody who lives gets in (an invalid end state otherwise)
 *
 *   run     -DDEATHS=0 -DLOCKS=2
 *   run     -DDEATHS=2 -DROUNDS=1
 *
 *   BUG=1   who has locked in the map does not look at the epoch afterwards
 *   BUG=2   the newcomer does not wait for those who hold the slot in the map
 *   BUG=3   the epoch is made even by who is not alone
 *   BUG=4   who sees the map and has the kernel's lock does not lock in the map
 *   BUG=5   the newcomer waits for the dead, too [-DDEATHS=1 -DROUNDS=1]
 *   BUG=6   the newcomer looks at the owner alone, not for the note of a death [-DDEATHS=1 -DROUNDS=1]
 *   BUG=7   the newcomer makes the epoch odd after it has locked
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef LOCKS
#define LOCKS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#define NONE 7
#define sees_map (_pid < 2)

/* the file */
bool is_odd;
byte owner = NONE;
bool died;
bool reader[2];

/* the kernel's locks */
bool lives[2];              /* the user's byte */
byte opening = NONE;
#define SHARED 1
#define ALONE 2
byte in_use[3];
byte slot[3];

byte inside[3];
bool killed[3];
bool finished[3];
byte deaths;
bool lost; /* an owner died inside, and nobody who can write that down was told */

#define is_dead(u) (u != _pid && !lives[u])
#define others_have(what, how) (_pid != 0 && what[0] >= how || _pid != 1 && what[1] >= how || _pid != 2 && what[2] >= how)

inline lock_in_map() {
  if
  :: kind == ALONE ->
    do
    :: atomic { owner == NONE -> owner = _pid; break }
    :: d_step { owner != NONE && is_dead(owner) -> owner = NONE; died = true }
    od;
    do
    :: !reader[1 - _pid] -> break
    :: d_step { reader[1 - _pid] && is_dead(1 - _pid) -> reader[1 - _pid] = false }
    od
  :: else ->
    do
    :: reader[_pid] = true;
      if
      :: owner == NONE -> break
      :: else -> reader[_pid] = false
      fi;
      if
      :: owner == NONE
      :: d_step { owner != NONE && is_dead(owner) -> owner = NONE; died = true }
      fi
    od
  fi
}

inline release_in_map() {
  if
  :: kind == ALONE -> d_step { if :: owner == _pid -> owner = NONE :: else fi }
  :: else -> reader[_pid] = false
  fi
}

/* Reads the file. */
inline await_map() {
#if BUG == 5
  atomic { owner == NONE -> told = died };
#elif BUG == 6
  atomic { owner == NONE || is_dead(owner) -> told = owner != NONE };
#else
  atomic { owner == NONE || is_dead(owner) -> told = died || owner != NONE };
#endif
  if
  :: kind == ALONE ->
    !reader[0] || is_dead(0);
    !reader[1] || is_dead(1)
  :: else
  fi
}

inline enter() {
  atomic {
    if
    :: sees_map && died && lost -> died = false; lost = false
    :: sees_map && died && !lost -> died = false /* it died before it was inside */
    :: else
    fi;
    inside[_pid] = kind;
    assert(kind == SHARED || !others_have(inside, SHARED));
    assert(kind == ALONE || !others_have(inside, ALONE));
    assert(!lost || told)
  };
  d_step { inside[_pid] = 0; told = false }
}

inline open_file() {
  atomic { opening == NONE -> opening = _pid };
  if
  :: atomic { !others_have(in_use, SHARED) -> in_use[_pid] = ALONE };
    if
    :: sees_map ->
      is_odd = false;
      /* recover_all() */
      d_step { if :: owner != NONE -> owner = NONE; died = true :: else fi };
      d_step { reader[0] = false; reader[1] = false }
    :: else
    fi
  :: else ->
#if BUG == 3
    if :: sees_map -> is_odd = false :: else fi
#endif
  fi;
  if
  :: sees_map ->
    d_step {
      lives[_pid] = true; /* nobody else takes the number */
      if :: owner == _pid -> owner = NONE; died = true :: else fi;
      reader[_pid] = false
    }
#if BUG != 7
  :: else -> is_odd = true
#else
  :: else
#endif
  fi;
  in_use[_pid] = SHARED;
  opening = NONE
}

inline close_file() {
  d_step {
    in_use[_pid] = 0;
    if :: sees_map -> lives[_pid] = false :: else fi
  }
}

inline lock_and_unlock() {
  if :: kind = ALONE :: kind = SHARED fi;
  if
  :: sees_map && !is_odd ->
    lock_in_map();
#if BUG == 1
    goto granted;
#else
    if :: !is_odd -> goto granted :: else fi;
#endif
    release_in_map()
  :: else
  fi;
  /* in the kernel */
  atomic { !others_have(slot, (kind == ALONE -> SHARED : ALONE)) -> slot[_pid] = kind };
  if
#if BUG != 4
  :: sees_map -> lock_in_map()
#endif
#if BUG != 2
  :: !sees_map -> await_map()
#endif
  :: else
  fi;
#if BUG == 7
  if :: !sees_map -> is_odd = true :: else fi;
#endif
granted:
  enter();
  if :: sees_map -> release_in_map() :: else fi;
  slot[_pid] = 0
}

active [3] proctype user() {
  byte rounds, locks, kind;
  bool told;
  {
    do
    :: rounds == ROUNDS -> break
    :: else ->
      rounds++;
      open_file();
      locks = 0;
      do
      :: locks == (rounds == 1 -> LOCKS : 1) -> break
      :: else ->
        locks++;
        lock_and_unlock()
      od;
      close_file()
    od;
    finished[_pid] = true
  } unless { killed[_pid] }
}

#if DEATHS > 0
inline dies(u) {
  d_step {
    deaths < DEATHS && in_use[u] + (opening == u) > 0 && !killed[u] ->
    deaths++;
    killed[u] = true;
    if :: u != 2 && inside[u] == ALONE -> lost = true :: else fi;
    if :: u != 2 -> lives[u % 2] = false :: else fi;
    if :: opening == u -> opening = NONE :: else fi;
    in_use[u] = 0; slot[u] = 0; inside[u] = 0
  }
}

active proctype kernel() {
end:
  do
  :: dies(0)
  :: dies(1)
  :: dies(2)
  od
}
#endif
