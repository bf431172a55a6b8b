package main

const (
	store  = "internal/store"
	seglog = store + "/seglog"
)

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

// logMutants: the log in segment files.
func logMutants() []Mutant {
	return []Mutant{
		{"log/no-sync", "G11", "a write is acknowledged before it is on the disk",
			in(seglog+"/segment.go", "	if err := s.f.sync(); err != nil {\n		return err\n	}\n	s.end = end\n", "	s.end = end\n"), by(seglog, "TestG11_EveryCrash")},
		{"log/entries-come-back", "G10 G11", "that entries were removed is not written down: they come back when the log is opened",
			in(seglog+"/log.go", "	if err := l.write(s, frame{Kind: frameKeep, First: first, Last: last}, newFrame(l.buf, 0)); err != nil {\n		return err\n	}\n", "	_ = s\n"),
			by(seglog, "TestFault_raftwal31_.*|TestModel")},
		{"log/unfinished-write-counts", "G11", "a write of which parts are missing is read as if it were whole",
			in(seglog+"/recover.go", "		if sum(s.Salt, payload) != f.Sum {\n", "		if f.Kind == 0 {\n"), by(seglog, "TestG11_EveryCrash")},
		{"log/not-settled", "G11", "what is read from the memory of the system is not synced before the log goes on",
			in(seglog+"/recover.go", "		return l.settle()\n", "		return nil\n"), by(seglog, "TestG11_RandomCrashes")},
		{"log/damage-is-cut-off", "G11", "acknowledged entries that are damaged are taken for an unfinished write, and cut off",
			in(seglog+"/recover.go", "at >= 0 {\n		return fmt.Errorf", "at > 1<<40 {\n		return fmt.Errorf"), by(seglog, "TestG11_EveryFlippedBit")},
		{"log/no-marks", "G11", "a write is not marked as synced: damage of the last one passes for an unfinished write",
			in(seglog+"/segment.go", "	s.end = end\n	return s.mark(number)\n", "	s.end = end\n	return nil\n"), by(seglog, "TestG11_EveryFlippedBit")},
		{"log/marked-too-early", "G11", "a write is marked as synced before it is: an unfinished one passes for damage, and costs the directory",
			in(seglog+"/segment.go", "	if _, err := s.f.WriteAt(buf, s.end); err != nil {\n		return err\n	}\n",
				"	if _, err := s.f.WriteAt(buf, s.end); err != nil {\n		return err\n	}\n	if _, err := s.f.WriteAt(binary.LittleEndian.AppendUint64(nil, mark(number, s.Salt)), end-markSize); err != nil {\n		return err\n	}\n"),
			by(seglog, "TestG11_EveryCrash")},
		{"log/segment-not-in-directory", "G11", "a segment is written to before the directory holds it for good",
			in(seglog+"/segment.go", "		err = dir.sync()\n", "		err = nil\n"), by(seglog, "TestG11_EveryCrash")},
		{"log/cut-file", "G11", "a file that was cut short is taken for a shorter log",
			in(seglog+"/recover.go", "	if s.end+frameSize > grown || len(trimZeros(data[grown:])) > 0 {\n", "	if s.end < 0 {\n"), by(seglog, "TestG11_CutShort")},
		{"log/segment-missing", "G11", "that the newest segment is missing is not noticed",
			in(seglog+"/recover.go", "		if sealed && i == len(numbers)-1 {\n", "		if sealed && i == len(numbers) {\n"), by(seglog, "TestG11_CutShort")},
		{"log/entries-missing", "G11", "that the oldest segments are missing is not noticed",
			in(seglog+"/recover.go", "	if l.span.missing() {\n", "	if l.span.missing() && l.number == 0 {\n"), by(seglog, "TestG11_CutShort")},
		{"log/goes-on-after-failure", "G11", "a log that failed takes the next write, and syncs again",
			in(seglog+"/log.go", "	if l.failed != nil {\n		return nil, l.failed\n	}\n	s := l.segments", "	s := l.segments"), by(seglog, "TestG11_FailureAtAnyOperation")},
		{"log/other-kind-opened", "G11", "a directory is opened with another kind of log than it has",
			in(store+"/store.go", "opts.LogStore != \"\" && has != opts.LogStore {", "opts.LogStore != \"\" && has == \"\" {"), by(store, "TestKindOfLog")},
		{"log/older-programs", "G11", "a directory with segments looks to an earlier program like one of its own, without a log",
			in(store+"/identity.go", "		version = identityVersion\n", "		version = 1\n"), by(store, "TestG11_OlderProgramsRefuseSegments")},
	}
}
