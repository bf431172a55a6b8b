package fsm

// The methods of State that the rest of the project builds on:
//
//	func New() *State                       // an empty cell before its first Generation (Params all zero: defaults of a test)
//	func (s *State) Apply(index, term uint64, cmds []Command) Output
//	func (s *State) Clone() *State          // O(1); copy-on-write
//	func (s *State) Hash() uint64           // of everything a Record carries, in canonical order
//	func (s *State) Records() iter.Seq[Record]
//	func Restore(records iter.Seq2[Record, error]) (*State, error)   // builds anew; error: damaged or incomplete, nothing kept
//
//	func (s *State) Revision() Revision
//	func (s *State) Index() uint64          // of the last entry applied
//	func (s *State) Params() Params
//	func (s *State) Cell() (id Nonce, formed bool)
//	func (s *State) Counts() Counts         // Sessions (users'), Locks, Keys, Waiting
//	func (s *State) Reaping() bool          // ended sessions still hold something
//	func (s *State) Hold() (ttl int64, on bool)
//	func (s *State) Get(key string) (KeyValue, bool)
//	func (s *State) List(prefix, after string, limit int) (kvs []KeyValue, more bool)
//	func (s *State) Lookup(name string) LockView   // Holders []Holder, Queue []Waiter, Freeing bool; a free name: none
//	func (s *State) Session(id SessionID) (SessionView, bool) // false: no such session, or one that has ended
//	func (s *State) Sessions() iter.Seq[SessionView]          // live ones, ascending
//	func (s *State) Members() []Member
//	func (s *State) Floor() Revision        // history: changes with a revision >= Floor are all there
//	func (s *State) Events(from Revision) iter.Seq[Event]     // history from a revision on, in order
