/* Several entities as one (canonicalize() and the loops of all four implementations): three entities, three users, each with a request
 * for two of them, all or none.
 *
 *   no deadlock   an invalid end state otherwise
 *
 *   BUG=1   entities are taken in the order of the request
 *   BUG=2   an entity behind a duplicate is skipped (L2): two users are with it at once
 */
#ifndef BUG
#define BUG 0
#endif
#define NONE 255

byte owner[3] = NONE;

proctype user(byte a; byte b; byte c) {
  byte rounds = 0;
  byte first; byte second;
#if BUG == 1
  first = a; second = b;
#else
  if :: a < b -> first = a; second = b :: else -> first = b; second = a fi;
#endif
  do
  :: rounds == 2 -> break
  :: rounds < 2 ->
    rounds++;
    atomic { owner[first] == NONE -> owner[first] = _pid };
#if BUG == 2
    if :: c == first -> skip :: else -> atomic { owner[second] == NONE -> owner[second] = _pid } fi;
    assert(owner[second] == _pid);
#else
    atomic { owner[second] == NONE -> owner[second] = _pid };
    assert(owner[first] == _pid && owner[second] == _pid);
#endif
    if :: owner[second] == _pid -> owner[second] = NONE :: else fi;
    owner[first] = NONE
  od
}

/* c: an entity that the request names twice */
init { atomic { run user(0, 1, 0); run user(1, 2, 1); run user(2, 0, 2) } }
