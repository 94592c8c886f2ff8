/* The queue of atomic_append (src/locks/atomic_append.cpp), one entity: asking, waiting, burying the dead, being told, letting go.
 *
 * Three users, the first SHARERS of which share the entity while the others are alone with it, are served once each; up to DEATHS of them
 * die, between any two steps, while they bury another among them. What becomes of notes later is shown by carry.pml.
 *
 *   exclusion   nobody else is inside with one that is alone
 *   told        who is alone with the entity after the death of one that was, or of a sharer that was told, is told; so is who shares it
 *               after the death of one that was alone, unless another one that shares it was; nobody, of one that lives
 *   no stuck    everybody who lives gets in (an invalid end state otherwise)
 *
 *   run     -DSHARERS=0
 *   run     -DSHARERS=1
 *   run     -DSHARERS=2
 *
 *   BUG=1   the byte of a request is locked after its record can be seen
 *   BUG=2   letting go unlocks the byte before the record is done
 *   BUG=3   a record found dead is done: nobody is told
 *   BUG=4   the byte of a request is let go when it is granted (L5)
 *   BUG=5   that a sharer was told is not noted in its record [-DSHARERS=1]
 *   BUG=6   the note of one that was told is done before that is noted in its own record [-DSHARERS=1]
 *   BUG=7   requests wait for the oldest that conflicts, and then for no other [-DSHARERS=2]
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef SHARERS
#define SHARERS 0
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#define N 3
#define NONE 7

#define OPEN 1 /* waiting, or held */
#define DONE 2
#define DIED 3
byte state[N];
bool shared[N];
bool was_told[N]; /* a sharer's record says so */
bool locked[N];   /* the byte of its id */
bool of_dead[N];
byte end;
byte recovering = NONE;

byte record[N] = NONE; /* of each user */
byte inside[N];
bool knows[N];
bool killed[N];
bool finished[N];
byte deaths;
bool lost;      /* one that was alone died inside; nobody was told */
bool lost_told; /* a sharer that was told died */

#define SHARES 1
#define ALONE 2
#define kind (_pid < SHARERS -> SHARES : ALONE)
#define conflict(a, b) (!shared[a] || !shared[b])

inline alone() { atomic { recovering == NONE -> recovering = _pid } }
inline not_alone() { d_step { if :: recovering == _pid -> recovering = NONE :: else fi } }

/* The last open record before one's own that conflicts; are there notes? */
inline look() {
  d_step {
    other = NONE; notes = false; i = 0;
    do
    :: i < mine ->
      if
      :: state[i] == OPEN && conflict(i, mine) ->
#if BUG == 7
        if :: other == NONE -> other = i :: else fi
#else
        other = i
#endif
      :: state[i] == DIED && conflict(i, mine) -> notes = true
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

inline bury() {
  alone();
  d_step {
    i = 0;
    do
    :: i < other && !(state[i] == OPEN && conflict(i, other)) -> i++
    :: else -> break
    od;
    if
    :: state[other] == OPEN ->
#if BUG == 3
      state[other] = DONE
#else
      state[other] = (i == other -> DIED : DONE) /* it waited itself: it cannot have had its turn */
#endif
    :: else
    fi;
    i = 0
  };
  not_alone()
}

inline take_notes() {
  alone();
  i = 0;
  do
  :: i == mine -> break
  :: d_step { i < mine && (state[i] != DIED || shared[i] && !was_told[i]) ->
      if :: state[i] == DIED -> state[i] = DONE :: else fi; /* a sharer changed nothing */
      i++
    }
  :: i < mine && state[i] == DIED && (!shared[i] || was_told[i]) ->
#if BUG == 6
    state[i] = DONE;
#endif
    d_step {
#if BUG != 5
      if :: kind == SHARES -> was_told[mine] = true :: else fi;
#endif
      assert(of_dead[i]);
      knows[_pid] = true;
      lost = false; lost_told = false /* until it dies */
    };
    d_step { state[i] = DONE; i++ }
  od;
  i = 0;
  not_alone()
}

active [N] proctype user() {
  byte mine = NONE, other = NONE, i;
  bool notes;
  {
    d_step { /* asks */
      mine = end; end++; record[_pid] = mine;
      state[mine] = OPEN; shared[mine] = kind == SHARES;
#if BUG != 1
      locked[mine] = true
#endif
    };
#if BUG == 1
    locked[mine] = true;
#endif
    look();
    do
    :: other == NONE -> break
    :: else ->
      !locked[other]; /* sleeps on its byte */
      if :: state[other] == OPEN -> bury() :: else fi;
#if BUG == 7
      break
#else
      look()
#endif
    od;
    if :: notes -> take_notes() :: else fi;
#if BUG == 4
    locked[mine] = false;
#endif
    atomic {
      notes = false; other = NONE;
      inside[_pid] = kind;
      assert((_pid == 0 || !inside[0] || kind == SHARES && inside[0] == SHARES) && (_pid == 1 || !inside[1] || kind == SHARES && inside[1] == SHARES)
             && (_pid == 2 || !inside[2] || kind == SHARES && inside[2] == SHARES));
      assert(!lost && (kind == SHARES || !lost_told))
    };
    inside[_pid] = 0;
#if BUG == 2
    locked[mine] = false;
#endif
    d_step { state[mine] = DONE; knows[_pid] = false };
    locked[mine] = false;
    finished[_pid] = true
  } unless { killed[_pid] };
  d_step { mine = NONE; other = NONE; i = 0; notes = false }
}

inline dies(u) {
  d_step {
    deaths < DEATHS && !finished[u] && !killed[u] && record[u] != NONE ->
    deaths++;
    killed[u] = true;
    locked[record[u]] = false;
    of_dead[record[u]] = true;
    if :: recovering == u -> recovering = NONE :: else fi;
    if
    :: u < SHARERS && knows[u] -> lost_told = true
    :: u >= SHARERS && (inside[u] == ALONE || knows[u]) -> lost = true
    :: else
    fi;
    inside[u] = 0; knows[u] = false
  }
}

active proctype kernel() {
end_of_all:
  do
  :: dies(0)
  :: dies(1)
  :: dies(2)
  od
}
