/* Joining and leaving a lock file (src/locks/lock_file.cpp, join() and joined()): whoever makes the map anew is alone with it.
 *
 * Three processes open, use and close the file, ROUNDS times; up to DEATHS of them die, between any two steps. While nobody uses the file,
 * or is about to, it may be removed once, as by who cleans a directory; the next makes another. A process that uses the map must use the
 * one that is there: making it anew while somebody uses it, or using that of a removed file, is what loses mutual exclusion.
 *
 *   one map     nobody makes it anew while another uses it; all that use one use the same
 *   made        who is not alone finds the map made
 *   no stuck    everybody who lives joins (an invalid end state otherwise)
 *
 *   run     -DROUNDS=2 -DDEATHS=1
 *   run     -DROUNDS=1 -DDEATHS=2
 *
 *   BUG=1   the creator's guard unlocks the in-use byte with the init byte (L1 of the published implementation)
 *   BUG=2   the creator lets the in-use byte go before it shares it, and nobody holds the init byte
 *   BUG=3   who has waited for the init byte does not look whether the file is still the named one (L14)
 *   BUG=4   a guard has no description of its own: what it lets go is all that its process holds (L10)
 *   BUG=5   others may join before the map is made
 */
#ifndef BUG
#define BUG 0
#endif
#define NONE 7

byte named;                    /* 0: none; the file that the name leads to */
byte files;                    /* how many were made */
byte map[4];                   /* of each file: which one is in it; 0: none, it is being made */
byte opening[4] = NONE;        /* exclusive lock on the init byte */

#define SHARED 1
#define ALONE 2
byte file[3];                  /* which one each has open */
byte in_use[3];                /* its lock on that one's in-use byte */
byte uses[3];                  /* which map; 0: none */
bool killed[3];
bool finished[3];
byte deaths;

#define has(u, how) (u != _pid && file[u] == file[_pid] && in_use[u] >= how)
#define others_have(how) (has(0, how) || has(1, how) || has(2, how))
#define agrees(u) (u == _pid || uses[u] == 0 || file[u] == file[_pid] && uses[u] == uses[_pid])

inline check_all() { assert(agrees(0) && agrees(1) && agrees(2) && map[file[_pid]] == uses[_pid]) }

active [3] proctype user() {
  byte rounds;
  {
    do
    :: rounds == ROUNDS -> break
    :: else ->
      rounds++;
again:
      atomic { if :: named == 0 -> files++; named = files :: else fi; file[_pid] = named };
#if BUG != 2
      atomic { opening[file[_pid]] == NONE -> opening[file[_pid]] = _pid };
#endif
#if BUG != 3
      if
      :: file[_pid] == named
      :: else -> d_step { opening[file[_pid]] = NONE; file[_pid] = 0 }; goto again
      fi;
#endif
      if
      :: d_step { !others_have(SHARED) -> in_use[_pid] = ALONE };
#if BUG == 5
        opening[file[_pid]] = NONE;
#endif
        d_step {
          assert((_pid == 0 || uses[0] == 0 || file[0] != file[_pid]) && (_pid == 1 || uses[1] == 0 || file[1] != file[_pid])
                 && (_pid == 2 || uses[2] == 0 || file[2] != file[_pid]));
          map[file[_pid]] = 0
        };
        d_step { map[file[_pid]] = 1 + _pid; uses[_pid] = 1 + _pid }
#if BUG == 2
        ; in_use[_pid] = 0
#endif
      :: else ->
#if BUG != 2
        assert(map[file[_pid]] != 0);
#endif
        uses[_pid] = map[file[_pid]]
      fi;
      atomic { !others_have(ALONE) -> in_use[_pid] = SHARED };
#if BUG == 1
      in_use[_pid] = 0;
#endif
      if :: opening[file[_pid]] == _pid -> opening[file[_pid]] = NONE :: else fi;
      check_all();
      /* a guard locks other bytes, through another description of the file, and lets go all that this one has */
#if BUG == 4
      in_use[_pid] = 0;
#endif
      check_all();
      d_step { file[_pid] = 0; in_use[_pid] = 0; uses[_pid] = 0 }
    od;
    finished[_pid] = true
  } unless { killed[_pid] };
  rounds = 0
}

inline dies(u) {
  d_step {
    deaths < DEATHS && !finished[u] && !killed[u] && file[u] != 0 ->
    deaths++;
    killed[u] = true;
    if :: opening[file[u]] == u -> opening[file[u]] = NONE :: else fi;
    file[u] = 0; in_use[u] = 0; uses[u] = 0
  }
}

#define is_unused(f) (opening[f] == NONE && !(file[0] == f && in_use[0]) && !(file[1] == f && in_use[1]) && !(file[2] == f && in_use[2]))

active proctype others() {
end:
  do
  :: dies(0)
  :: dies(1)
  :: dies(2)
  :: d_step { files == 1 && named != 0 && is_unused(named) -> named = 0 }
  od
}
