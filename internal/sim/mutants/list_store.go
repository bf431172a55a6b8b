package main

const store = "internal/store"

// voteMutants: what a server has promised, and keeps over a crash.
func voteMutants() []Mutant {
	return []Mutant{
		{"store/vote-in-two-writes", "G1 G11", "term and candidate of a vote are two writes: a crash between them gives the term's vote to an earlier candidate",
			in(store+"/ballot.go", "	case keyVoteTerm:\n		b.mu.Lock()\n", "	case keyVoteTerm:\n		next := b.current()\n		next.voteTerm = v\n		b.write(OpSetVote, next)\n		b.mu.Lock()\n"),
			by(store, "TestVoteSurvivesCrash")},
		{"store/ballot-checksum", "G1 G11", "a damaged record of term and vote is believed",
			in(store+"/ballot.go", "computed != stored {\n		return ballot{}", "computed == 0 && stored > 0 {\n		return ballot{}"),
			by(store, "TestG11_ADamagedBallotIsNotBelieved")},
		{"store/entry-checksum", "G10 G11", "a damaged log entry is believed, and sent to others",
			in(store+"/seal.go", "computed != stored {", "computed == 0 && stored > 0 {"),
			by(store, "TestFlippedBitIsFound|TestFlippedFile|TestG11_.*")},
		{"store/term-behind-log", "G1 G11", "a server whose term was lost, but not its log, votes a second time",
			in(store+"/check.go", "term < max(lastTerm, snap.Term)", "term > 0 && term < 0"), by(store, "TestTermBehindLog")},
		{"store/half-snapshot-log", "G10 G11", "after a crash between installing a snapshot and removing the log that it replaced the old log is used",
			in(store+"/check.go", "snap.Index < first || termAtSnap == snap.Term {", "snap.Index < first || termAtSnap >= 0 {"), by(store, "TestLogOfAnotherHistory")},
	}
}

// diskMutants: a disk that fails.
func diskMutants() []Mutant {
	return []Mutant{
		{"store/error-ignored", "G11", "a disk that fails is not noticed, and its server goes on promising",
			in(store+"/guard.go", "		if err != nil {\n			g.fail(c.op, err)\n		}\n", ""), by(store, "TestG11_FirstFailureSilences")},
		{"store/told-too-late", "G11", "the call that failed returns before the switch is thrown, and its answer may leave",
			in(store+"/guard.go", "		if err != nil {\n			g.fail(c.op, err)\n		}\n		w.done <- err\n", "		if err != nil {\n			time.AfterFunc(time.Millisecond, func() { g.fail(c.op, err) })\n		}\n		w.done <- err\n"),
			by(store, "TestG11_FirstFailureSilences")},
		{"store/poison-not-final", "G11", "a disk that failed once is used again",
			in(store+"/guard.go", "	if g.sw.Err() != nil {\n		return false\n	}\n	w := g.take()\n", "	w := g.take()\n"),
			by(store, "TestG11_FirstFailureSilences")},
		{"store/sync-retried", "G11", "a sync that failed is repeated: the system reports success without having written anything",
			in(store+"/guard.go", "	if err := protect(g.log, c.fn); err != nil {\n		return err\n	}\n",
				"	if protect(g.log, c.fn) != nil {\n		if err := protect(g.log, c.fn); err != nil {\n			return err\n		}\n	}\n"),
			by(store, "TestG11_AFailedSyncIsNotRepeated")},
		{"store/not-retired", "G11", "a directory whose disk failed is opened again, and read from memory",
			in(store+"/guard.go", "		if err != nil && retires(err) {\n", "		if err != nil && w == nil {\n"), by(store, "TestG11_FailedSyncIsFinal|TestWhatRetires")},
		{"store/retired-is-opened", "G11", "the mark of a retired directory is not looked at",
			in(store+"/store.go", "	if err == nil {\n		return fmt.Errorf(\"%w: %s says", "	if err == nil && s == nil {\n		return fmt.Errorf(\"%w: %s says"),
			by(store, "TestG11_FailedSyncIsFinal|TestOpenRefuses|TestWhatRetires")},
		{"store/full-disk-retires", "G11", "a disk that was merely full costs the server its directory",
			in(store+"/guard.go", "		if err != nil && retires(err) {\n", "		if err != nil {\n"), by(store, "TestFullDiskIsNotRetired|TestWhatRetires")},
		{"store/stall-not-told", "G8", "a disk that hangs is not told to the leader, who hands nothing over before it falls silent",
			in(store+"/guard.go", "	if g.onStall != nil && g.sw.Err() == nil {\n", "	if g.onStall != nil && g.sw.Err() != nil {\n"), by(store, "TestStallEnds|TestStallOfMany")},
		{"store/log-with-gaps", "G10 G11", "a log store with a gap behind an installed snapshot is not shortened",
			in(store+"/logs.go", "	if last != 0 && entries[0].Index > last+1 && !l.remove(0, last) {\n", "	if last != 0 && entries[0].Index == 0 && !l.remove(0, last) {\n"),
			by(store, "TestLogHasNoGaps")},
		{"store/not-monotonic", "G10", "the store does not say that its log is monotonic, and a restart does not end a snapshot loop",
			in(store+"/logs.go", "IsMonotonic() bool { return true }", "IsMonotonic() bool { return false }"), by(store, "TestMonotonic")},
		{"store/panic-not-recovered", "G12", "a bbolt file whose pages make no sense ends the host program",
			in(store+"/guard.go", "		if r := recover(); r != nil {\n", "		if r := error(nil); r != nil {\n"), by(store, "TestPanicInStore")},
	}
}
