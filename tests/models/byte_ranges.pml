/* The notes of byte_ranges (src/locks/byte_ranges.cpp): two entities, whose notes want the same words of one bucket.
 *
 * N users; each asks ROUNDS times for one or both entities, to share each or to be alone with it: all such requests are tried. Up to
 * DEATHS die, between any two steps; another process then does what the dead one had still to do. One request may fail while it waits.
 * A bucket has WORDS words; one of them has no room for both notes. A step is one atomic operation on a word, or one system call,
 * together with what only its process sees.
 *
 *   exclusion   nobody else who wants the entity is inside with one that is alone with it
 *   told        who gets an entity after one that was alone with it died inside is told: who is alone with it next, or the first of those
 *               that share it. If that first one dies, who is alone with it next is told, and nobody who shares it. Who dies with all it
 *               wanted locked, but not inside yet, or no longer, may be told of. Nobody else is told, and each death once
 *   no rest     when all have gone there are the notes of deaths that nobody was told of, and no other
 *   no room     whose note had no room is not told of; with a word for each entity there is always room (WORDS=2)
 *   no stuck    everybody who lives gets in (an invalid end state otherwise)
 *
 *   run     -DDEATHS=2
 *   run     -DDEATHS=2 -DWORDS=2
 *   run     -DDEATHS=2 -DN=2 -DROUNDS=2
 *   run     -DDEATHS=2 -DROUNDS=2 -DENTITIES=1
 *   run     -DDEATHS=0
 *
 *   BUG=1   the note is wiped after the entity is unlocked
 *   BUG=2   each note is written when its entity is locked, not when all are
 *   BUG=3   a note is stored where a word was found empty, not exchanged
 *   BUG=4   who lets go leaves its note
 *   BUG=5   of those that share it, all that have seen the note are told: it is stored, not exchanged
 *   BUG=6   who shares it and was not told wipes the note of who was
 *   BUG=7   who was told wipes the note at once: if it dies, nobody is told
 *   BUG=8   who is alone does not know the note of a sharer that was told
 *   BUG=9   who is alone and told leaves the note as it is, which it will not wipe then [-DDEATHS=2 -DN=2 -DROUNDS=2]
 *   BUG=10  a request that fails wipes the notes of what it had locked
 *   BUG=11  two threads have one open description, whose locks are one (L10) [-DDEATHS=0]
 *   BUG=12  who shares it is told of a sharer's death
 *   BUG=13  a request that fails keeps what it had locked [-DDEATHS=0]
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef N
#define N 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef ENTITIES
#define ENTITIES 2
#endif
#ifndef WORDS
#define WORDS 1
#endif

/* The bucket: 0, or the number of an entity + 1 and perhaps TOLD. */
#define TOLD 4
byte word[WORDS];

/* Of each user and entity: at 2 * user + entity. */
#define NOT 0
#define SHARES 1
#define ALONE 2
byte want[6];
byte lock[6];     /* the kernel's */
bool knows[6];    /* was told; who shares it: until it has wiped the note */
bool roomless[6]; /* the bucket was full */

#define ASKS 0 /* has not locked all */
#define NOTES 1
#define INSIDE 2
#define LEAVES 3
byte phase[3];
byte finished;
byte deaths;
bool gave_up; /* somebody, once */

/* Of each entity: there was a death that nobody has been told of, */
bool lost[2];         /* of one that was alone with it */
bool lost_told[2];    /* of one that shared it and was told */
bool perhaps[2];      /* and the same, where nobody need be told: it was not inside yet, or no longer */
bool perhaps_told[2];

#define id (e + 1)
#define mine (2 * _pid + e)

#define conflict(a, b) (a + b > ALONE && a != NOT && b != NOT)
#if BUG == 11
#define is_own(u) (u == _pid || u < 2 && _pid < 2)
#else
#define is_own(u) (u == _pid)
#endif
#define blocks(u) (!is_own(u) && conflict(lock[2 * u + e], want[mine]))
#define may_lock !(blocks(0) || blocks(1) || blocks(2))

/* Its next step, of those on words. */
#define LOOK 0 /* for a note of the entity */
#define FOUND 1
#define LOOK_FOR_ROOM 2
#define FOUND_ROOM 3

/* ── what only the process sees, and what is checked ────────────────────────────────────────────────────── */

inline first() {
  e = (want[2 * _pid] == NOT -> 1 : 0)
}
inline next() {
  e = (e == 0 && want[2 * _pid + 1] != NOT -> 1 : 2)
}

/* Of users that ask once it does not matter which asks for what. */
#define request(u) (want[2 * u] + 3 * want[2 * u + 1])
inline ask() {
  rounds++;
  k = (ROUNDS == 1 && _pid != 0 -> request((_pid - 1)) : 1);
  do
  :: break
  :: k < (ENTITIES == 1 -> 2 : 8) -> k++
  od;
  want[2 * _pid] = k % 3; want[2 * _pid + 1] = k / 3;
  k = 0;
  first()
}

/* Is its note to be wiped when it lets go? */
#if BUG == 4
#define wipes(which) false
#elif BUG == 6
#define wipes(which) (want[2 * _pid + which] != NOT)
#else
#define wipes(which) (want[2 * _pid + which] == ALONE || knows[2 * _pid + which])
#endif

#define excludes(u, which) (u != _pid && phase[u] == INSIDE && conflict(want[2 * u + which], want[2 * _pid + which]))

inline enter() {
  phase[_pid] = INSIDE;
  assert(!excludes(0, 0) && !excludes(1, 0) && !excludes(2, 0));
  assert(!excludes(0, 1) && !excludes(1, 1) && !excludes(2, 1));
  first();
  do
  :: e == 2 -> break
  :: e != 2 && want[mine] == ALONE ->
    if
    :: knows[mine] -> assert(lost[e] || lost_told[e] || perhaps[e] || perhaps_told[e])
    :: else -> assert(!lost[e] && !lost_told[e])
    fi;
    knows[mine] = false;
    lost[e] = false; lost_told[e] = false; perhaps[e] = false; perhaps_told[e] = false;
    next()
  :: e != 2 && want[mine] == SHARES ->
    assert(!lost[e]);
    perhaps[e] = false;
    next()
  od;
  e = (wipes(0) -> 0 : (wipes(1) -> 1 : 2))
}

#define has_note(which) (word[0] == which + 1 || word[WORDS - 1] == which + 1)
#define has_told_note(which) (word[0] == (which + 1 | TOLD) || word[WORDS - 1] == (which + 1 | TOLD))

inline check_rest(which) {
  if
  :: has_note(which) -> assert(lost[which] || perhaps[which])
  :: has_told_note(which) -> assert(lost_told[which] || perhaps_told[which])
  :: else -> assert(!lost[which] && !lost_told[which])
  fi
}

/* ── a request ──────────────────────────────────────────────────────────────────────────────────────────── */

inline unlock_all() {
  lock[2 * _pid] = NOT; lock[2 * _pid + 1] = NOT;
#if BUG == 11
  if :: _pid < 2 -> lock[0] = NOT; lock[1] = NOT; lock[2] = NOT; lock[3] = NOT :: else fi;
#endif
  phase[_pid] = ASKS
}

/* Another request, or the end. */
inline go_on() {
  d_step {
    e = 0; k = 0; step = LOOK;
    roomless[2 * _pid] = false; roomless[2 * _pid + 1] = false;
    knows[2 * _pid] = false; knows[2 * _pid + 1] = false
  };
  if
  :: rounds != ROUNDS -> ask(); goto locks
  :: else -> d_step { finished++; if :: finished == N -> check_rest(0); check_rest(1) :: else fi }; goto gone
  fi
}

/* The kernel gives back what it had locked. */
inline loses(which) {
  if
  :: lock[2 * _pid + which] == ALONE && !roomless[2 * _pid + which] && phase[_pid] == INSIDE -> lost[which] = true
  :: lock[2 * _pid + which] == ALONE && !roomless[2 * _pid + which] && (phase[_pid] == NOTES || phase[_pid] == LEAVES) ->
    perhaps[which] = true
  :: lock[2 * _pid + which] == SHARES && knows[2 * _pid + which] && phase[_pid] != LEAVES -> lost_told[which] = true
  :: lock[2 * _pid + which] == SHARES && knows[2 * _pid + which] && phase[_pid] == LEAVES -> perhaps_told[which] = true
  :: else
  fi
}

/* At any time while it has something locked. */
inline die() {
  atomic { deaths < DEATHS && (lock[2 * _pid] != NOT || lock[2 * _pid + 1] != NOT) ->
    deaths++;
    d_step { loses(0); loses(1); unlock_all() };
    go_on()
  }
}

/* ── the notes ──────────────────────────────────────────────────────────────────────────────────────────── */

#if BUG == 8
#define is_note(w) (w == id)
#elif BUG == 12
#define is_note(w) ((w & ~TOLD) == id)
#else
#define is_note(w) (w == id || want[mine] == ALONE && w == (id | TOLD))
#endif
#if BUG == 5 || BUG == 12
#define is_unchanged true
#else
#define is_unchanged word[k] == id
#endif
#if BUG == 3
#define is_still_empty true
#else
#define is_still_empty word[k] == 0
#endif

inline noted() {
  d_step {
    step = LOOK; k = 0;
    next();
    if :: e == 2 -> enter() :: else fi
  };
#if BUG == 2
  if :: phase[_pid] == INSIDE -> break :: else -> goto locks fi
#else
  if :: phase[_pid] == INSIDE -> break :: else fi
#endif
}

inline no_note_here() {
  d_step {
    k++;
    if
    :: k == WORDS && want[mine] == ALONE && step == LOOK -> step = LOOK_FOR_ROOM; k = 0
    :: k == WORDS && want[mine] == ALONE && step == LOOK_FOR_ROOM -> assert(WORDS < ENTITIES); roomless[mine] = true
    :: else
    fi
  };
  if :: k == WORDS -> noted() :: else fi
}

/* note(), if it is alone with the entity, and tell(), if it shares it; of each. Then it is inside. */
inline note_or_tell() {
  do
  :: d_step { step == LOOK && is_note(word[k]) -> step = FOUND }
  :: atomic { step == LOOK && !is_note(word[k]) -> no_note_here() }
  :: atomic { step == FOUND && want[mine] == ALONE ->
#if BUG != 9
      word[k] = id;
#endif
      knows[mine] = true;
      noted()
    }
  :: atomic { step == FOUND && want[mine] == SHARES ->
      if
      :: is_unchanged ->
        word[k] = (BUG == 7 -> 0 : id | TOLD);
        assert(lost[e] || perhaps[e]);
        lost[e] = false; perhaps[e] = false; /* from now on others need not be told */
        knows[mine] = true
      :: else
      fi;
      noted()
    }
  :: d_step { step == LOOK_FOR_ROOM && word[k] == 0 -> step = FOUND_ROOM }
  :: atomic { step == LOOK_FOR_ROOM && word[k] != 0 -> no_note_here() }
  :: atomic { step == FOUND_ROOM ->
      if
      :: is_still_empty -> word[k] = id; noted()
      :: else -> step = LOOK_FOR_ROOM; no_note_here()
      fi
    }
  :: die()
  od
}

/* wipe(), of each entity that it is alone with, and of each of which it was told; the code begins with these. */
#define mark (want[mine] == SHARES -> id | TOLD : id)

inline wipe_notes() {
  do
  :: d_step { e != 2 && step == LOOK && word[k] == mark -> phase[_pid] = LEAVES; step = FOUND }
  :: d_step { e != 2 && step == LOOK && word[k] != mark ->
      phase[_pid] = LEAVES;
      k++;
      if :: k == WORDS -> k = 0; e = (e == 0 && wipes(1) -> 1 : 2) :: else fi
    }
  :: d_step { e != 2 && step == FOUND ->
      word[k] = 0;
      knows[mine] = false;
      step = LOOK; k = 0; e = (e == 0 && wipes(1) -> 1 : 2)
    }
  :: atomic { e == 2 -> unlock_all(); go_on() }
  :: die()
  od
}

active [N] proctype user() {
  byte rounds, e, k, step;
  atomic { ROUNDS > 1 || _pid == 0 || request((_pid - 1)) != 0 -> ask() };
locks:
  do
  :: atomic { may_lock -> lock[mine] = want[mine];
#if BUG == 2
      break
#else
      next();
      if :: e == 2 -> phase[_pid] = NOTES; first(); break :: else fi
#endif
    }
  :: atomic { !gave_up -> /* it may not wait, or no longer */
      gave_up = true;
#if BUG == 10
      if :: lock[2 * _pid] != NOT && word[0] == 1 -> word[0] = 0 :: else fi;
#endif
#if BUG != 13
      unlock_all();
#endif
      go_on()
    }
  :: die()
  od;
  note_or_tell();
#if BUG == 1
  atomic { unlock_all(); phase[_pid] = LEAVES };
#endif
  wipe_notes();
gone:
  skip
}
