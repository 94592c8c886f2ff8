/* What becomes of the note of a death in the queue of atomic_append (src/locks/atomic_append.cpp): told, buried, carried to the end.
 *
 * At first there is one record, of somebody who died with two entities. Each user asks once, for one of them or both, alone; meanwhile
 * somebody who has let go carries the first note that counts to the end, CARRIES times. Up to DEATHS deaths, between any two steps, of
 * who carries among them. How records are waited for is shown by append.pml.
 *
 *   not lost    who gets an entity of somebody dead is told, if nobody was who lived to use it; while that is to come, not all is done
 *   told once   not two are told of the first death, unless one of them died
 *   no stuck    everybody who lives gets in (an invalid end state otherwise)
 *
 *   run     -DCARRIES=1 -DDEATHS=2
 *   run     -DCARRIES=2 -DDEATHS=1
 *
 *   BUG=1   who carries does not look for those between that are to be told
 *   BUG=2   the original is done before the copy is a note
 *   BUG=3   the copy is a note before it is known that nobody between is to be told
 *   BUG=4   the copy says that nobody was told yet
 *   BUG=5   who carries does not exclude who is told meanwhile
 *   BUG=6   a note is done when one of its entities was told
 *   BUG=7   who waits looks for notes when it comes, and not when it is its turn
 */
#ifndef BUG
#define BUG 0
#endif
#define USERS 2
#define RECORDS (1 + USERS + CARRIES)
#define NONE 15

#define OPEN 1 /* waiting, or held */
#define DONE 2
#define DIED 3
byte state[RECORDS];
byte wants[RECORDS]; /* bit 0, bit 1: the entities */
byte told[RECORDS];
bool locked[RECORDS]; /* the byte of its id */
byte end = 1;
byte recovering = NONE;

bool is_first[RECORDS];  /* the first death's, or a copy */
bool is_note[RECORDS];   /* or of another death */
bool of_dead[RECORDS];
byte teller[2] = NONE;   /* who was told of the first death, for each entity */
byte lost = 3;            /* entities whose owner died, and nobody who lives was told */
bool killed[USERS + 1];  /* the last one: who carries */
bool finished[USERS + 1];
byte record[USERS + 1] = NONE;
byte knows[USERS + 1];
bool inside[USERS + 1];
byte deaths;
bool is_made;

inline alone() { atomic { recovering == NONE -> recovering = _pid } }
inline not_alone() { recovering = NONE }

/* Sleeps on its byte; buries it if it died: one write, so nobody sees half of that. */
inline await_other() {
  if
  :: d_step { state[other] != OPEN -> skip }
  :: d_step { state[other] == OPEN && !locked[other] && recovering == NONE ->
      i = 0;
      do
      :: i < other && !(state[i] == OPEN && (wants[i] & wants[other])) -> i++
      :: else -> break
      od;
      state[other] = (i == other -> DIED : DONE); /* it waited itself: it cannot have had its turn */
      i = 0
    }
  fi
}

/* Reads the records in their order; what may be carried meanwhile one by one. */
inline look() {
  other = NONE; notes = false; i = first; not_done = NONE;
  do
  :: d_step { i < mine ->
      do
      :: true ->
        if :: state[i] != DONE && not_done == NONE -> not_done = i :: else fi;
        if
        :: state[i] == OPEN && (wants[i] & wants[mine]) -> other = i
        :: state[i] == DIED && (wants[i] & wants[mine]) -> notes = true
        :: else
        fi;
        i++;
        if :: i == mine || is_note[i] -> break :: else fi
      od
    }
  :: atomic { else ->
      if :: not_done == NONE -> first = mine :: else -> first = not_done fi;
      i = 0; not_done = 0;
      break
    }
  od
}

inline tell(e) {
  if
  :: wants[i] & wants[mine] & ~told[i] & (1 << e) ->
    if
    :: is_first[i] ->
      assert(teller[e] == NONE || teller[e] == mine || of_dead[teller[e]]);
      teller[e] = mine
    :: else
    fi;
    knows[_pid] = knows[_pid] | (1 << e)
  :: else
  fi
}

inline take_notes() {
  alone();
  i = first;
  do
  :: i == mine -> break
  :: i < mine && state[i] == DIED ->
    d_step { tell(0); tell(1); told[i] = told[i] | wants[mine] };
#if BUG == 6
    d_step { state[i] = DONE; i++ }
#else
    d_step { if :: !(wants[i] & ~told[i]) -> state[i] = DONE :: else fi; i++ }
#endif
  :: atomic { i < mine && state[i] != DIED -> i++ }
  od;
  i = 0;
  not_alone()
}

inline carry() {
  if
#if BUG == 5
  :: first < end && state[first] == DIED ->
#else
  :: atomic { recovering == NONE && first < end && state[first] == DIED -> recovering = _pid };
#endif
    d_step {
      copy = end; /* the copy */
      state[end] = DONE;
      wants[end] = wants[first]; told[end] = told[first]; is_first[end] = is_first[first]; is_note[end] = true;
#if BUG == 3
      state[end] = DIED;
#elif BUG == 4
      told[end] = 0;
#endif
      end++
    };
    d_step {
      i = first;
      do
      :: i < copy && !(state[i] == OPEN && (wants[i] & wants[copy] & ~told[copy])) -> i++
      :: else -> break
      od
    };
    if
#if BUG == 1
    :: true ->
#else
    :: i == copy -> /* nobody between wants it */
#endif
#if BUG == 2
      state[first] = DONE;
      state[copy] = DIED
#else
      state[copy] = DIED;
      state[first] = DONE
#endif
    :: else
    fi;
#if BUG != 5
    d_step { i = 0; copy = NONE; not_alone() }
#else
    d_step { i = 0; copy = NONE }
#endif
  :: true
  fi
}

inline check_lost() {
  i = 0;
  do
  :: i < end && state[i] == DONE -> i++
  :: else -> break
  od;
  assert(i != end || lost == 0); /* who opens the file alone would empty it */
  i = 0
}

active [USERS] proctype user() {
  byte first, i, want, not_done;
  byte mine = NONE, other = NONE;
  bool notes;
  is_made;
  {
    if :: want = 3 :: want = 1 + _pid fi;
    d_step { /* asks */
      mine = end; record[_pid] = end;
      state[end] = OPEN; wants[end] = want; locked[end] = true;
      end++; want = 0
    };
    look();
#if BUG == 7
    if :: notes -> take_notes() :: else fi;
#endif
    do
    :: other == NONE -> break
    :: else -> await_other(); look()
    od;
#if BUG != 7
    if :: notes -> take_notes() :: else fi;
#endif
    atomic {
      notes = false;
      inside[_pid] = true;
      assert(!(lost & wants[mine] & ~knows[_pid]));
      lost = lost & ~wants[mine]
    };
    d_step {
      inside[_pid] = false; knows[_pid] = 0;
      state[mine] = DONE; locked[mine] = false;
      check_lost()
    };
    finished[_pid] = true
  } unless { killed[_pid] };
  d_step { first = 0; i = 0; want = 0; not_done = 0; mine = NONE; other = NONE; notes = false; record[_pid] = NONE }
}

/* Somebody who has let go, and has a note to carry; again, perhaps after its death. */
active proctype carrier() {
  byte first, i, times;
  byte copy = NONE;
  do
  :: times == CARRIES -> break
  :: else ->
    times++;
    d_step { /* what it remembers */
      first = 0;
      do
      :: first < end && state[first] == DONE -> first++
      :: else -> break
      od
    };
    {
      carry()
    } unless { killed[USERS] };
    d_step { killed[USERS] = false; first = 0; copy = NONE; check_lost() }
  od;
  finished[USERS] = true
}

inline dies(u) {
  d_step {
    deaths < DEATHS && !finished[u] && !killed[u] && (u == USERS && recovering == u || record[u] != NONE) ->
    deaths++;
    killed[u] = true;
    if :: u != USERS -> locked[record[u]] = false; of_dead[record[u]] = true; is_note[record[u]] = true :: else fi;
    if :: recovering == u -> recovering = NONE :: else fi;
    lost = lost | knows[u];
    if :: inside[u] -> lost = lost | wants[record[u]] :: else fi;
    inside[u] = false;
    knows[u] = 0
  }
}

active proctype kernel() {
  d_step { state[0] = DIED; wants[0] = 3; of_dead[0] = true; is_first[0] = true; is_note[0] = true; is_made = true };
end_of_all:
  do
  :: dies(0)
  :: dies(1)
  :: dies(USERS)
  od
}
