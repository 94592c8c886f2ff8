/* lock_files (src/locks/lock_files.cpp): one entity, whose file is made, locked, looked at, marked and removed.
 *
 * Users below SHARERS share the entity, the others are alone with it; each ROUNDS times. Up to DEATHS die, between any two calls, and
 * one may give up what it has locked.
 *
 *   exclusion   nobody else is inside with one that is alone
 *   told        who gets it after an owner died inside is told: all that are alone, and the first of those that share it; so is one that
 *               comes after the death of who was told; and nobody else
 *   no rest     without deaths no file is left when all have gone
 *   no stuck    everybody who lives gets in (an invalid end state otherwise)
 *
 *   run     -DSHARERS=0 -DDEATHS=1
 *   run     -DSHARERS=2 -DDEATHS=1
 *   run     -DSHARERS=3 -DDEATHS=0
 *   run     -DSHARERS=1 -DDEATHS=2
 *   run     -DN=2 -DSHARERS=1 -DDEATHS=2 -DROUNDS=2
 *
 *   BUG=1   who has locked the file does not look whether it is still the named one
 *   BUG=2   the file is marked when it is made [-DSHARERS=0 -DDEATHS=1]
 *   BUG=3   who leaves tries once to be the last [-DSHARERS=3 -DDEATHS=0]
 *   BUG=4   of those that share it, all that find the mark are told [-DSHARERS=2 -DDEATHS=1]
 *   BUG=5   who shares it removes the file without being alone [-DSHARERS=2 -DDEATHS=0]
 *   BUG=6   who has byte 1 does not look again for the mark [-DSHARERS=2 -DDEATHS=1]
 *   BUG=7   who was told wipes the mark at once: if it dies, nobody is told [-DSHARERS=1 -DDEATHS=2]
 *   BUG=8   who shares it removes a marked file [-DSHARERS=2 -DDEATHS=1]
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef N
#define N 3
#endif
#ifndef SHARERS
#define SHARERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define FILES 6
#define NONE 15

byte named = 0;          /* the file that the name leads to; 0: none. A removed one is another afterwards */
bool used[FILES];        /* exists: has a name, or somebody has it open */
bool marked[FILES];      /* may be executed by its owner */
byte byte_1[FILES] = NONE;

#define SHARES 1
#define ALONE 2
byte opened[3]; /* which file each has open */
byte lock[3];   /* of its byte 0 */

byte inside[3];
bool knows[3];
bool killed[3];
bool finished[3];
byte deaths;
bool gave_up;   /* somebody, once */
bool lost;      /* an owner died inside; nobody was told */
bool lost_told; /* one who shared it was told, and died */

#define has(u, how) (u != _pid && opened[u] == opened[_pid] && lock[u] >= how)
#define others_have(how) (has(0, how) || has(1, how) || has(2, how))

/* Nobody has it open, and no name leads to it: it is another file then. */
inline forget(f) {
  if
  :: f != 0 && f != named && opened[0] != f && opened[1] != f && opened[2] != f ->
    used[f] = false; marked[f] = false; byte_1[f] = NONE
  :: else
  fi
}

inline close_file() {
  d_step {
    if :: byte_1[opened[_pid]] == _pid -> byte_1[opened[_pid]] = NONE :: else fi;
    k = opened[_pid];
    opened[_pid] = 0; lock[_pid] = 0;
    forget(k);
    k = 0
  }
}

inline make_file() {
  k = 1;
  do
  :: used[k] -> k++
  :: else -> break
  od;
  named = k; used[k] = true; opened[_pid] = k;
#if BUG == 2
  marked[k] = true;
#endif
  k = 0
}

#define kind (_pid < SHARERS -> SHARES : ALONE)
#define may_lock (kind == ALONE && !others_have(SHARES) || kind == SHARES && !others_have(ALONE))

inline check_inside() {
  inside[_pid] = kind;
  assert(_pid == 0 || !inside[0] || kind == SHARES && inside[0] == SHARES);
  assert(_pid == 1 || !inside[1] || kind == SHARES && inside[1] == SHARES);
  assert(_pid == 2 || !inside[2] || kind == SHARES && inside[2] == SHARES)
}

#define all_finished (finished[0] && finished[1] && (N == 2 || finished[2]))

/* Now that it is locked, and the named one. */
inline own() {
  if
  :: true ->
    atomic {
      knows[_pid] = was_marked;
      was_marked = false;
      marked[opened[_pid]] = true;
      check_inside();
      if :: knows[_pid] -> assert(lost || lost_told) :: else -> assert(!lost && !lost_told) fi;
      lost = false; lost_told = false
    };
    if
    :: opened[_pid] == named -> d_step { inside[_pid] = 0; knows[_pid] = false; named = 0 }
    :: else -> d_step { inside[_pid] = 0; knows[_pid] = false }
    fi
  :: !gave_up -> /* something else that it wanted cannot be had */
    gave_up = true;
    if :: !was_marked && opened[_pid] == named -> named = 0 :: else fi;
    was_marked = false
  fi
}

inline share() {
  if
  :: true ->
    if
#if BUG == 4
    :: atomic { was_marked -> knows[_pid] = true; assert(lost || lost_told); lost = false; lost_told = false }
#else
    :: d_step { was_marked && byte_1[opened[_pid]] == NONE ->
        byte_1[opened[_pid]] = _pid; /* from now on others need not be told */
        knows[_pid] = lost || lost_told;
        lost = false; lost_told = false
      };
      if
#if BUG == 6
      :: assert(knows[_pid])
#else
      :: marked[opened[_pid]] -> assert(knows[_pid])
      :: else -> assert(!knows[_pid]); byte_1[opened[_pid]] = NONE
#endif
      fi
#endif
    :: else
    fi;
#if BUG == 7
    if :: knows[_pid] -> marked[opened[_pid]] = false :: else fi;
#endif
    atomic {
      was_marked = false;
      check_inside();
      assert(!lost)
    };
    d_step {
      inside[_pid] = 0;
      if :: knows[_pid] -> marked[opened[_pid]] = false :: else fi;
      knows[_pid] = false
    }
  :: !gave_up -> gave_up = true; was_marked = false
  fi;
  /* the last one removes it */
#if BUG != 5
  if
  :: d_step { !others_have(SHARES) -> lock[_pid] = ALONE }
  :: else ->
    lock[_pid] = 0;
#if BUG != 3
    if
    :: d_step { !others_have(SHARES) -> lock[_pid] = ALONE }
    :: else
    fi
#endif
  fi;
  if
  :: lock[_pid] == ALONE &&
#if BUG != 8
     !marked[opened[_pid]]
#else
     true
#endif
     ->
#endif
    if :: opened[_pid] == named -> named = 0 :: else fi
#if BUG != 5
  :: else
  fi
#endif
}

active [N] proctype user() {
  byte rounds, k;
  bool was_marked;
  {
    do
    :: rounds == ROUNDS -> break
    :: else ->
      rounds++;
again:
      if
      :: d_step { named == 0 -> make_file() } /* O_CREAT | O_EXCL */
      :: atomic { named != 0 -> opened[_pid] = named } /* exists; whoever finds it gone before that begins again */
      fi;
      atomic { may_lock -> lock[_pid] = kind };
      was_marked = marked[opened[_pid]]; /* fstat() */
#if BUG != 1
      if
      :: opened[_pid] == named
      :: else -> was_marked = false; close_file(); goto again
      fi;
#endif
      if
      :: kind == ALONE -> own()
      :: else -> share()
      fi;
      close_file()
    od;
    atomic {
      finished[_pid] = true;
      assert(named == 0 || deaths != 0 || !all_finished)
    }
  } unless { killed[_pid] };
  d_step { rounds = 0; k = 0; was_marked = false }
}

#if DEATHS > 0
inline dies(u) {
  d_step {
    deaths < DEATHS && !finished[u] && !killed[u] && opened[u] != 0 ->
    deaths++;
    killed[u] = true;
    if :: inside[u] == ALONE -> lost = true :: else fi;
    if :: u < SHARERS && knows[u] -> lost_told = true :: else fi;
    inside[u] = 0; knows[u] = false;
    if :: byte_1[opened[u]] == u -> byte_1[opened[u]] = NONE :: else fi;
    k = opened[u];
    opened[u] = 0; lock[u] = 0;
    forget(k);
    k = 0
  }
}

active proctype kernel() {
  byte k;
end:
  do
  :: dies(0)
  :: dies(1)
#if N > 2
  :: dies(2)
#endif
  od
}
#endif
