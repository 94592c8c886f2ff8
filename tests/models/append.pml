/* The queue of atomic_append (src/fs/atomic_append.cpp), one entity, exclusive.
 *
 * Three users ask, are served, let go; up to two deaths between any two steps, of one who buries another among them.
 *
 *   exclusion   one inside
 *   told        the death of one inside is told to the next; no more is told than died
 *   no stuck    everybody who lives gets in (an invalid end state otherwise)
 *
 *   BUG=1   the byte of a request is locked after its record can be seen
 *   BUG=2   letting go unlocks the byte before the record is done
 *   BUG=3   a record found dead is done: nobody is told
 */
#ifndef BUG
#define BUG 0
#endif
#define N 3
#define LAST 3 /* records */
#define NONE 255

byte state[LAST]; /* 0: none yet, 1: waiting or held, 2: done, 3: died */
bool locked[LAST]; /* the byte of its id */
byte end = 0;
byte recovering = NONE;

byte deaths = 0;
byte inside = 0;
byte lost = 0; /* deaths inside that nobody was told of */
byte told = 0; /* how often somebody was told */

inline die() {
  atomic {
    deaths < 2 ->
    deaths++;
    if :: mine != NONE -> locked[mine] = false :: else fi;
    if :: recovering == _pid -> recovering = NONE :: else fi;
    if :: is_inside -> inside--; lost++ :: else fi;
    goto dead
  }
}
#define step if :: true :: die() fi

active [N] proctype user() {
  byte mine = NONE;
  byte k;
  byte other;
  bool is_inside = false;
#if BUG == 1
  atomic { mine = end; state[end] = 1; end++ };
  step;
  locked[mine] = true;
#else
  atomic { mine = end; state[end] = 1; locked[end] = true; end++ }; /* the id is known before the place */
#endif
  step;
look:
  other = NONE;
  k = 0;
  d_step {
    do
    :: k < mine -> if :: state[k] == 1 -> other = k :: else fi; k++
    :: else -> break
    od
  };
  if
  :: other == NONE -> skip
  :: else ->
    !locked[other]; /* sleeps on its byte */
    step;
    if
    :: state[other] == 1 ->
      atomic { recovering == NONE -> recovering = _pid };
      step;
      if
      :: atomic { state[other] == 1 ->
#if BUG == 3
         state[other] = 2 }
#else
         state[other] = 3 }
#endif
      :: else
      fi;
      step;
      if :: recovering == _pid -> recovering = NONE :: else fi
    :: else
    fi;
    goto look
  fi;
  step;
  atomic { inside++; is_inside = true };
  assert(inside == 1);
  /* takes the notes of deaths; the dead ones before were waiting, or inside */
  atomic { recovering == NONE -> recovering = _pid };
  step;
  k = 0;
  d_step {
    other = 0;
    do
    :: k < mine -> if :: state[k] == 3 -> state[k] = 2; other = 1 :: else fi; k++
    :: else -> break
    od;
    if :: other -> lost = 0; told++ :: else fi
  };
  recovering = NONE;
  assert(lost == 0);
  assert(told <= deaths);
  step;
  atomic { inside--; is_inside = false };
#if BUG == 2
  locked[mine] = false;
  step;
  state[mine] = 2;
#else
  state[mine] = 2;
  step;
  locked[mine] = false;
#endif
dead:
  skip
}
