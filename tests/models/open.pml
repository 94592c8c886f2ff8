/* Joining and leaving a lock file (src/fs/lock_file.cpp, join and joined): whoever makes the map anew is alone.
 *
 * Three processes open, use and close the file, again and again; up to two deaths, between any two steps. The kernel gives
 * back the locks of the dead. A process that uses the map must use the one that is there: making it anew while somebody
 * uses it is what loses mutual exclusion.
 *
 *   BUG=1   the creator's guard unlocks the in-use byte with the init byte (L1 of the published implementation)
 *   BUG=2   the creator lets the in-use byte go before it shares it, and nobody holds the init byte
 */
#ifndef BUG
#define BUG 0
#endif
#define N 3
#define NONE 255

byte init_owner = NONE;        /* exclusive lock on the init byte */
byte in_use_exclusive = NONE;  /* exclusive lock on the in-use byte */
bool in_use_shared[N];         /* shared locks on it */
byte map = 0;                  /* which map is in the file; 0: none */
byte using[N];                 /* the map that each process uses; 0: none */
byte deaths = 0;

#define others_share (in_use_shared[0] && _pid != 0 || in_use_shared[1] && _pid != 1 || in_use_shared[2] && _pid != 2)
#define may_have_exclusive ((in_use_exclusive == NONE || in_use_exclusive == _pid) && !others_share)

inline die() {
  atomic {
    deaths < 2 -> deaths++;
    if :: init_owner == _pid -> init_owner = NONE :: else fi;
    if :: in_use_exclusive == _pid -> in_use_exclusive = NONE :: else fi;
    in_use_shared[_pid] = false;
    using[_pid] = 0;
    goto again
  }
}
#define step if :: true :: die() fi

active [N] proctype user() {
  byte rounds = 0;
again:
  do
  :: rounds == 2 -> break
  :: rounds < 2 ->
    rounds++;
#if BUG == 2
    skip;
#else
    atomic { init_owner == NONE -> init_owner = _pid };
#endif
    step;
    if
    :: atomic { may_have_exclusive -> in_use_exclusive = _pid; in_use_shared[_pid] = false };
       step;
       /* alone: makes the map anew */
       assert(using[0] == 0 && using[1] == 0 && using[2] == 0);
       map = (map % 3) + 1;
       step;
       using[_pid] = map;
       step;
#if BUG == 2
       in_use_exclusive = NONE;
       step;
       atomic { in_use_exclusive == NONE -> in_use_shared[_pid] = true };
#else
       atomic { in_use_exclusive = NONE; in_use_shared[_pid] = true };
#endif
#if BUG == 1
       step;
       in_use_shared[_pid] = false;
#endif
    :: else ->
       using[_pid] = map;
       step;
       atomic { in_use_exclusive == NONE -> in_use_shared[_pid] = true }
    fi;
    step;
    if :: init_owner == _pid -> init_owner = NONE :: else fi;
    step;
    assert(using[_pid] == map); /* nobody has exchanged it */
    step;
    using[_pid] = 0;
    in_use_shared[_pid] = false
  od
}
