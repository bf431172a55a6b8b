package main

import "slices"

// mutants is the whole list, by subject.
func mutants() []Mutant {
	return slices.Concat(
		evidenceMutants(), answerMutants(), termMutants(),
		inboundMutants(), standMutants(), switchMutants(), raftMutants(),
		voteMutants(), diskMutants(), logMutants(),
		leaseMutants(), graceMutants(), renewalMutants(), expiryMutants(), pauseMutants(),
		releaseMutants(), retryMutants(), readMutants(), leaderMutants(), marksMutants(),
		lockMutants(), sharedMutants(), lossMutants(), deadlockMutants(), sessionMutants(), resultMutants(), stateMutants(),
		watchMutants(), agreementMutants(),
		formingMutants(), strangerMutants(), fenceMutants(), boundMutants(),
	)
}

// in is one edit.
func in(file, before, after string) []Edit { return []Edit{{file, before, after}} }

// by is one run.
func by(folder, tests string) []Run { return []Run{{folder, tests}} }
