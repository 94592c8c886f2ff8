/* One slot of memory_map (src/locks/map_protocol.hpp): owners, sharers, sleepers, deaths and who undoes them.
 *
 * N users, the first SHARERS of which share the slot while the others own it; each gets in once or, with GIVES_UP, one of them gives up.
 * Up to DEATHS of them die, between any two steps, while they recover another among them; with OTHERS_COME another process may then
 * come with the dead one's number. All want entity 0, but for user BESIDE: that one wants another of the same slot. The atomics of the
 * protocol are sequentially consistent, so interleaving is all there is. A step is one atomic operation of the code, together with what
 * only its process sees. There is room for all notes; where there is none what is left is one bit and one number, which are told and
 * recovered as a note is.
 *
 *   exclusion   nobody else is inside with an owner
 *   told        whoever owns an entity after the death of its owner, or of a sharer that was told, is told; so is who shares it after
 *               an owner's; each death at most once, and nobody who wants the other entity
 *   no stuck    everybody who lives gets in or gives up (an invalid end state otherwise). A sleeper looks again by itself, but once
 *               only until something changes
 *   timely      without deaths all are woken: nobody need look again by itself (TIMELY)
 *   recovered   what a dead one holds is undone while somebody is left who wants it, and everybody is served; weakly fair (LIVE)
 *
 *   run     -DN=2 -DDEATHS=2 -DGIVES_UP=1
 *   run     -DDEATHS=2 -DOTHERS_COME=0
 *   run     -DDEATHS=1 -DSHARERS=2
 *   run     -DTIMELY -DDEATHS=0
 *   run     -DTIMELY -DDEATHS=0 -DSHARERS=2
 *   run     -DLIVE -DN=2 -DDEATHS=2
 *   run     -DDEATHS=2 -DOTHERS_COME=0 -DBESIDE=1
 *   run     -DDEATHS=1 -DSHARERS=2 -DBESIDE=1
 *   run     -DDEATHS=2 -DOTHERS_COME=0 -DSHARERS=0 -DBESIDE=1
 *
 *   BUG=1   who shares does not look for an owner after it has set its bit (no Dekker)
 *   BUG=2   who recovers does not see whether the user lives
 *   BUG=3   the note of a death is lost by who recovers
 *   BUG=4   sharers are counted (L13): a dead one's part of the count cannot be undone
 *   BUG=5   who recovers undoes the bit of a sharer before it looks whether that one was told
 *   BUG=6   the dead one's byte is looked at and not taken: another user of the number comes meanwhile
 *   BUG=7   two that share are both told [-DDEATHS=1 -DSHARERS=2]
 *   BUG=8   a sharer that is told takes the note away: if it dies, nobody is told
 *   BUG=9   who slept and shares now does not wake the next [-DTIMELY -DDEATHS=0 -DSHARERS=2]
 *   BUG=10  whoever has the slot next is told [-DDEATHS=1 -DBESIDE=1]
 *   BUG=11  who lets go leaves the note of what it had [-DDEATHS=1 -DSHARERS=0 -DBESIDE=1]
 *   BUG=12  who recovers frees the slot before the note of a death is there [-DDEATHS=1 -DSHARERS=0]
 *   BUG=13  who recovers wipes what the dead one had before that is noted [-DDEATHS=2 -DOTHERS_COME=0 -DSHARERS=0]
 *   BUG=14  who shares does not look whether the note is there still [-DDEATHS=1 -DSHARERS=2 -DOTHERS_COME=0]
 *   BUG=15  an owner is told before it has noted what it has [-DDEATHS=2 -DOTHERS_COME=0 -DSHARERS=0]
 */
#ifndef BUG
#define BUG 0
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef SHARERS
#define SHARERS 1
#endif
#ifndef N
#define N 3
#endif
#ifndef GIVES_UP
#define GIVES_UP 0
#endif
#ifndef OTHERS_COME
#define OTHERS_COME 1
#endif
#ifndef BESIDE
#define BESIDE 7
#endif
#define NONE 7
#define mine (_pid == BESIDE -> 1 : 0)

/* the word */
byte owner = NONE;
bool waiting, reserved, noted;

/* the notes, of each entity */
byte held = NONE; /* which one the owner has */
bool died[2];     /* its owner */
byte told[2] = NONE; /* who shares it and was told */

bool reader[3];
byte count; /* BUG 4 */
#if BUG == 4
#define nobody_shares (count == 0)
#else
#define nobody_shares (!(reader[0] || reader[1] || reader[2]))
#endif

/* The futexes: instead of their values, who has read one that has not changed since. */
#define AWAKE 0
#define ON_TURN 1 /* has read it; + 1: sleeps */
#define ON_DRAIN 3
byte nap[3];

/* The lock on the byte of a number. */
#define LIVES 0 /* held by its user */
#define FREE 1
#define TAKEN 2 /* + by whom: recovers it */
byte lock[3];

#define SHARES 1
#define OWNS 2
byte inside[3];
bool knows[3]; /* was told */

bool killed[3];
bool finished[3];
bool looked[3]; /* by itself, and nothing has changed since */
byte deaths;
bool gave_up;    /* somebody, once */
bool owed[2];       /* somebody died who had it, or was told, and nobody was told since */
bool lost_owner[2]; /* it may be half changed, of which nobody who lives knows */
bool lost_told[2];

inline all_changed() {
  looked[0] = false; looked[1] = false; looked[2] = false
}

inline changed(on) { /* the value of a futex */
  if :: nap[0] == on -> nap[0] = AWAKE :: else fi;
  if :: nap[1] == on -> nap[1] = AWAKE :: else fi;
  if :: nap[2] == on -> nap[2] = AWAKE :: else fi
}

inline wake_one(on) {
  d_step { changed(on) };
  atomic {
    woken = true;
    if
    :: nap[0] == on + 1 -> nap[0] = AWAKE
    :: nap[1] == on + 1 -> nap[1] = AWAKE
    :: nap[2] == on + 1 -> nap[2] = AWAKE
    :: else -> woken = false
    fi
  }
}

/* FUTEX_WAIT, until woken or until it is time to look. */
inline sleep_on(on) {
  d_step { if :: nap[_pid] == on -> nap[_pid] = on + 1 :: else fi }
}
#ifdef TIMELY
#define is_time timeout
#else
#define is_time nap[_pid] != AWAKE && !looked[_pid]
#endif

/* ── recovering ─────────────────────────────────────────────────────────────────────────────────────────── */

inline undo_reader(who) {
  if
  :: d_step { reader[who] -> reader[who] = false; all_changed() };
    d_step { changed(ON_DRAIN); changed(ON_DRAIN + 1) }
  :: else
  fi
}

#if BUG == 3
inline copy_held() { skip }
#else
inline copy_held() {
  d_step { if :: held != NONE -> died[held] = true :: else fi };
  d_step { if :: held != NONE -> noted = true :: else fi }
}
#endif

inline free_word(who) {
  d_step { owner == who -> owner = NONE; waiting = false; reserved = false; all_changed() };
  d_step { changed(ON_TURN); changed(ON_TURN + 1) }
}

inline recover_slots(who) {
#if BUG == 5
  undo_reader(who);
#endif
  d_step { if :: noted && told[0] == who -> told[0] = NONE; all_changed() :: else fi };
  d_step { if :: noted && told[1] == who -> told[1] = NONE; all_changed() :: else fi };
  if
  :: owner == who ->
#if BUG == 12
    free_word(who);
    copy_held();
    held = NONE
#elif BUG == 13
    d_step { was = held; held = NONE };
    d_step { if :: was != NONE -> died[was] = true; noted = true :: else fi; was = NONE };
    free_word(who)
#else
    copy_held();
    held = NONE;
    free_word(who)
#endif
  :: else
  fi;
#if BUG != 5
  undo_reader(who);
#endif
  skip
}

/* is_alive() and recover(): two looks at a byte are as good as the last one. */
#if BUG == 2
#define may_recover(u) (u != _pid && lock[u] < TAKEN)
#define excludes(u, by) skip
#elif BUG == 6
#define may_recover(u) (u != _pid && lock[u] == FREE)
#define excludes(u, by) skip
#else
#define may_recover(u) (u != _pid && lock[u] == FREE)
#define excludes(u, by) lock[u] = by
#endif

inline probe(also_readers) {
  recovered = false;
  do
  :: atomic { other == NONE && owner != NONE && may_recover(owner) -> other = owner; excludes(other, TAKEN + _pid) }
  :: atomic { also_readers && other == NONE && reader[0] && may_recover(0) -> other = 0; excludes(0, TAKEN + _pid) }
  :: atomic { also_readers && other == NONE && reader[1] && may_recover(1) -> other = 1; excludes(1, TAKEN + _pid) }
  :: atomic { also_readers && other == NONE && reader[2] && may_recover(2) -> other = 2; excludes(2, TAKEN + _pid) }
  :: other != NONE ->
    recover_slots(other);
    d_step { excludes(other, FREE); all_changed(); other = NONE; recovered = true }
  :: else -> break
  od
}

/* ── in the map ─────────────────────────────────────────────────────────────────────────────────────────── */

/* What is reserved is for those that have slept, and for all when its time is over: that may be so at any time. */
#define may_take (owner == NONE)
#define must_wait (owner != NONE || reserved && !slept)

inline disown() {
  d_step {
    inside[_pid] = 0;
    knows[_pid] = false;
#if BUG != 11
    held = NONE
#endif
  };
  atomic {
    was_waiting = waiting;
    owner = NONE; waiting = false;
    if :: was_waiting -> reserved = true :: reserved = false fi; /* it is time to be fair, or not yet */
    reserves = reserved;
    all_changed()
  };
  if
  :: was_waiting ->
    wake_one(ON_TURN);
    if
    :: atomic { reserves && !woken && owner == NONE && reserved ->
        was_waiting = waiting; reserved = false; waiting = false; all_changed()
      };
      if :: was_waiting -> wake_one(ON_TURN) :: else fi
    :: else
    fi
  :: else
  fi;
  d_step { was_waiting = false; reserves = false; woken = false }
}

/* Looks again afterwards, or has gone. */
inline await_release() {
  if
  :: true ->
    nap[_pid] = ON_TURN; /* reads its value */
    if
    :: d_step { must_wait -> waiting = true }
    :: atomic { else -> nap[_pid] = AWAKE; goto again }
    fi;
    sleep_on(ON_TURN);
    if
    :: atomic { nap[_pid] == AWAKE -> slept = true; goto again }
    :: atomic { is_time ->
#ifdef TIMELY
        assert(deaths != 0 || gave_up);
#endif
        slept = true; nap[_pid] = AWAKE; looked[_pid] = true
      }
    fi;
    probe(false)
  :: GIVES_UP && !gave_up -> /* the deadline has passed */
    probe(false);
    if :: recovered -> goto again :: else fi;
    gave_up = true;
    if :: slept -> wake_one(ON_TURN) :: else fi;
    goto gone
  fi;
  goto again
}

inline is_told() {
  assert(owed[mine]);
  owed[mine] = false;
  knows[_pid] = true
}

#if BUG == 10
#define is_noted (died[0] || died[1])
#else
#define is_noted died[mine]
#endif

inline take_note() {
  d_step { if :: noted && is_noted -> died[mine] = false; is_told() :: else fi };
  d_step { if :: noted && !died[0] && !died[1] -> noted = false :: else fi }
}

inline own() {
  if
  :: atomic { may_take -> owner = _pid; waiting = waiting || slept; reserved = false; all_changed() }
  :: atomic { must_wait -> skip }; await_release()
  fi;
  /* waits for the sharers */
  do
  :: nobody_shares -> break
  :: else ->
    if
    :: true ->
      nap[_pid] = ON_DRAIN; /* reads its value */
      if :: atomic { nobody_shares -> nap[_pid] = AWAKE; break } :: else fi;
      sleep_on(ON_DRAIN);
      if
      :: nap[_pid] == AWAKE
      :: atomic { is_time ->
#ifdef TIMELY
          assert(deaths != 0 || gave_up);
#endif
          nap[_pid] = AWAKE; looked[_pid] = true
        };
        probe(true)
      fi
    :: GIVES_UP && !gave_up -> /* the deadline has passed */
      probe(true);
      if
      :: recovered
      :: else -> gave_up = true; disown(); goto gone
      fi
    fi
  od;
#if BUG == 15
  take_note();
  held = mine;
#else
  held = mine;
  take_note();
#endif
  atomic {
    inside[_pid] = OWNS;
    assert(owner == _pid);
    assert((_pid == 0 || !inside[0]) && (_pid == 1 || !inside[1]) && (_pid == 2 || !inside[2]));
    assert(knows[_pid] || !lost_owner[mine] && !lost_told[mine]);
    assert(told[0] == NONE && told[1] == NONE); /* or the next note there would be kept from all that share */
    lost_owner[mine] = false; lost_told[mine] = false
  };
  disown()
}

/* Of several that share an entity one is told. */
inline share_note() {
  if
  :: sees_notes && died[mine] ->
    if
#if BUG == 7
    :: atomic { true -> told[mine] = _pid };
#else
    :: atomic { told[mine] == NONE -> told[mine] = _pid };
#endif
      if
#if BUG != 14
      :: atomic { !died[mine] -> told[mine] = NONE }
      :: atomic { died[mine] -> is_told() }
#else
      :: atomic { true -> is_told() }
#endif
      fi
#if BUG == 8
      ; d_step { died[mine] = false; told[mine] = NONE }
#endif
    :: told[mine] != NONE
    fi
  :: else
  fi;
  sees_notes = false
}

inline share() {
  if
  :: may_take
  :: atomic { must_wait -> skip }; await_release()
  fi;
  d_step { reader[_pid] = true; count++; all_changed() };
  if
#if BUG == 1
  :: atomic { true -> sees_notes = noted; was_reserved = reserved }
#else
  :: atomic { owner == NONE -> sees_notes = noted; was_reserved = reserved }
#endif
  :: else ->
    d_step { reader[_pid] = false; count--; all_changed() };
    wake_one(ON_DRAIN);
    await_release()
  fi;
  if
  :: was_reserved -> d_step { if :: owner == NONE && reserved -> reserved = false; all_changed() :: else fi; was_reserved = false }
  :: else
  fi;
#if BUG != 9
  if :: slept -> wake_one(ON_TURN) :: else fi; /* the next of those that sleep may share, too */
#endif
  share_note();
  atomic {
    inside[_pid] = SHARES;
    assert(inside[0] != OWNS && inside[1] != OWNS && inside[2] != OWNS);
    assert(!lost_owner[mine] || knows[_pid] || told[mine] != NONE); /* somebody else is told, and may not have come so far */
    if :: knows[_pid] -> lost_owner[mine] = false; lost_told[mine] = false :: else fi
  };
  inside[_pid] = 0;
  if
  :: knows[_pid] ->
    d_step { died[mine] = false; knows[_pid] = false };
    d_step { if :: told[mine] == _pid -> told[mine] = NONE :: else fi }
  :: else
  fi;
  d_step { reader[_pid] = false; count--; all_changed() };
  if :: owner != NONE -> wake_one(ON_DRAIN) :: else fi
}

active [N] proctype user() {
  byte other = NONE; /* whom it recovers */
  byte was = NONE; /* what that one had */
  bool slept, sees_notes, woken, recovered, was_waiting, reserves, was_reserved, is_another;
life:
  {
    if
    :: is_another ->
      d_step { lock[_pid] == FREE -> lock[_pid] = LIVES; is_another = false; all_changed() };
      recover_slots(_pid)
    :: else
    fi;
again:
    if
    :: _pid < SHARERS -> share()
    :: else -> own()
    fi;
gone:
    atomic { finished[_pid] = true; slept = false; woken = false; recovered = false; all_changed() }
  } unless { killed[_pid] };
  if
  :: killed[_pid] ->
    atomic {
      killed[_pid] = false;
      other = NONE; was = NONE;
      slept = false; sees_notes = false; woken = false; recovered = false; was_waiting = false; reserves = false; was_reserved = false;
      if
      :: OTHERS_COME -> is_another = true; goto life
      :: is_another = false
      fi
    }
  :: else
  fi
}

/* ── the kernel ─────────────────────────────────────────────────────────────────────────────────────────── */

#define ent(u) (u == BESIDE -> 1 : 0)

inline dies(u) {
  d_step {
    deaths < DEATHS && lock[u] == LIVES && !finished[u] && !killed[u] ->
    deaths++;
    killed[u] = true;
    lock[u] = FREE;
    nap[u] = AWAKE;
    if :: lock[0] == TAKEN + u -> lock[0] = FREE :: else fi;
    if :: lock[1] == TAKEN + u -> lock[1] = FREE :: else fi;
    if :: lock[2] == TAKEN + u -> lock[2] = FREE :: else fi;
    if :: owner == u && held == ent(u) || told[ent(u)] == u || knows[u] -> owed[ent(u)] = true :: else fi;
    if :: inside[u] == OWNS -> lost_owner[ent(u)] = true :: else fi;
    if :: inside[u] == SHARES && knows[u] -> lost_told[ent(u)] = true :: else fi;
    inside[u] = 0;
    knows[u] = false;
    all_changed()
  }
}

#if DEATHS > 0
active proctype kernel() {
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

#ifdef LIVE
#define is_dead(u) (lock[u] != LIVES)
#define owner_is_dead (owner == 0 && is_dead(0) || owner == 1 && is_dead(1) || owner == 2 && is_dead(2))
#define sharer_is_dead (reader[0] && is_dead(0) || reader[1] && is_dead(1) || reader[2] && is_dead(2))
#define gone(u) (u >= N || finished[u] || is_dead(u))
#define nobody_left (gone(0) && gone(1) && gone(2))
ltl recovered {
  [] (owner_is_dead -> <> (!owner_is_dead || nobody_left))
  && [] (sharer_is_dead && owner != NONE -> <> (!sharer_is_dead || owner == NONE || nobody_left))
  && <> nobody_left
}
#endif
