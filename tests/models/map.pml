/* One slot of memory_map (src/fs/memory_map.cpp): owners, sharers, sleepers, deaths and who undoes them.
 *
 * Three users; each owns or shares the slot ROUNDS times; up to two deaths, between any two steps, the recovering one among them. All
 * atomics of the protocol are sequentially consistent, so interleaving is all there is.
 *
 *   exclusion   nobody else is inside with an owner
 *   told        the death of an owner inside is told to the next owner, once
 *   no stuck    without deaths left everybody gets in (an invalid end state otherwise)
 *
 *   BUG=1   who shares looks for an owner before it sets its bit (no Dekker)
 *   BUG=2   who recovers does not see whether the user lives
 *   BUG=3   the note of a death is cleared by who recovers
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define N 3
#define NONE 255

byte owner = NONE;      /* the word: owner, */
bool waiting = false;   /* waiting, */
bool died = false;      /* died */
bool reader[N];         /* a bit for each user */
byte turn = 0;          /* what is slept on, modulo 8 */
byte drain = 0;
bool alive[N] = true;   /* the lock on the user's byte */
byte recovering = NONE; /* the lock on the recovery byte */

byte deaths = 0;
byte inside_owner = 0;
byte inside_shared = 0;
bool lost = false;      /* an owner died inside, and nobody was told */

inline die() {
  atomic {
    deaths < 2 ->
    deaths++;
    alive[_pid] = false;
    if :: recovering == _pid -> recovering = NONE :: else fi;
    if :: inside == 2 -> inside_owner--; lost = true :: inside == 1 -> inside_shared-- :: else fi;
    goto dead
  }
}
#define step if :: true :: die() fi

/* What probe() and recover() do for user `who`. */
inline look_after() {
  if
#if BUG == 2
  :: who != NONE && who != _pid ->
#else
  :: who != NONE && who != _pid && !alive[who] ->
#endif
    atomic { recovering == NONE -> recovering = _pid };
    step;
    atomic {
      if
      :: owner == who ->
        owner = NONE; waiting = false;
#if BUG != 3
        died = true;
#endif
        turn = (turn + 1) % 8
      :: else
      fi
    };
    step;
    atomic { if :: reader[who] -> reader[who] = false; drain = (drain + 1) % 8 :: else fi };
    step;
    recovering = NONE
  :: else
  fi
}

active [N] proctype user() {
  byte rounds = 0;
  byte inside = 0;
  byte seen;
  byte k;
  byte who;
  bool told;
  do
  :: rounds == ROUNDS -> break
  :: rounds < ROUNDS ->
    rounds++;
    told = false;
    if
    :: true -> /* to own */
own_again:
      if
      :: atomic { owner == NONE -> owner = _pid; told = died; died = false }
      :: else ->
        /* sleeps: the value was read before the word */
        seen = turn;
        if
        :: atomic { owner != NONE -> waiting = true };
          step;
          if
          :: turn != seen -> skip
          :: timeout -> skip /* the probe interval has passed */
          fi;
          who = owner; look_after()
        :: else
        fi;
        goto own_again
      fi;
      step;
drain_again:
      if
      :: !(reader[0] || reader[1] || reader[2]) -> skip
      :: else ->
        seen = drain;
        if
        :: drain != seen -> skip
        :: timeout -> skip
        fi;
        k = 0;
        do :: k < N -> if :: reader[k] -> who = k; look_after() :: else fi; k++ :: else -> break od;
        goto drain_again
      fi;
      atomic { inside = 2; inside_owner++; if :: told && lost -> lost = false :: else fi };
      assert(inside_owner == 1 && inside_shared == 0);
      assert(!lost); /* who comes in after a death knows */
      step;
      atomic { inside = 0; inside_owner-- };
      step;
      atomic { owner = NONE; k = waiting; waiting = false };
      step;
      if :: k -> turn = (turn + 1) % 8 :: else fi
    :: true -> /* to share */
share_again:
#if BUG == 1
      if :: owner == NONE -> step; reader[_pid] = true :: else -> goto share_wait fi;
#else
      reader[_pid] = true;
      step;
      if
      :: owner == NONE
      :: else ->
        reader[_pid] = false;
        step;
        drain = (drain + 1) % 8;
        goto share_wait
      fi;
#endif
      atomic { inside = 1; inside_shared++; if :: died -> died = false; lost = false :: else fi };
      assert(inside_owner == 0);
      step;
      atomic { inside = 0; inside_shared-- };
      step;
      reader[_pid] = false;
      step;
      drain = (drain + 1) % 8;
      goto shared;
share_wait:
      seen = turn;
      if
      :: atomic { owner != NONE -> waiting = true };
        if :: turn != seen -> skip :: timeout -> skip fi;
        who = owner; look_after()
      :: else
      fi;
      goto share_again;
shared:
      skip
    fi
  od;
dead:
  skip
}
