// Package seglog is raft's log in segment files: a write is one pwrite and one fdatasync, into space that the file already
// has.
//
// # The files
//
// A directory of segments, named by their consecutive numbers: 00000001.log and on. All integers are little endian.
//
//	segment  header in a sector of 512 bytes, frames, zeros to the end of the file
//	header   "coordlog", version u32, salt u32, segment u64, number u64, first u64, last u64, step u32, zeros,
//	         CRC-32C of the first 60 bytes u32. It keeps this form in every later version.
//	frame    header, payload, zeros to a multiple of 8, mark u64
//	         header: CRC-32C of the rest of the header u32, CRC-32C of the payload u32, number u64, kind u32, size of the
//	         payload u32, first u64, last u64
//	entry    CRC-32C of the rest u32, size of the entry u32, index u64, term u64, type u8, size of the extensions u32,
//	         time of appending as time.Time.AppendBinary has it and zeros to 16 bytes, extensions, data
//
// A frame is one write: the entries first to last, or "from here on the log is what it was from first to last", or "the
// next segment goes on". Frames are numbered through all segments. All checksums begin with the segment's random salt, so
// that neither an entry that holds a copy of a segment nor an old block of the disk passes for a frame. The header of a
// segment says what number its first frame has, and what the log was when it was made.
//
// # Why nothing that was acknowledged is lost, and nothing that was removed comes back
//
// A disk may lose what was not synced: of such writes any set of sectors of 512 bytes may be there after a power cut, in
// any order. A sector is there or not, never half; what was synced stays.
//
//  1. A frame is written only when the one before it has been synced, so at most one frame is not on the disk, the last.
//     Reading goes from frame to frame and stops at the first that is not whole. What follows it can only be the rest of
//     that last frame: it is overwritten with zeros and synced before anything else is written, so that two crashes
//     cannot make one frame of two halves. And a last frame that is whole is synced again when the log is opened: the
//     process may have ended before that, and what is read then comes from the memory of the operating system.
//  2. To remove entries is a frame as well. The frames after it were written after it was synced, so whoever reads a
//     new entry has read before that the old ones are gone. No order of writes, and no crash, brings them back.
//  3. Each frame ends with a mark, which is zero until the sync has returned, and is written then without a sync of its
//     own. It is at its place before the write is acknowledged, so the end of the process never loses it.
//  4. If anything follows the frame at which reading stops, its own mark included, or, where its header is not whole, a
//     mark or a header, what was there had been synced: this is damage, and the log is not opened. Without either it is an unfinished write, and is cut off. The damage of a
//     frame that had been synced can pass for an unfinished write only if it is the very last, and the power failed
//     before its mark got to the disk, which is with the next write, or when the operating system next writes its pages.
//     A disk that gives back the end of the file as it was some writes ago, mark and all, cannot be told from one on which
//     they were not made.
//  5. A new segment is complete and in the directory before the frame that ends the old one is written. So a segment
//     that ends without that frame is the last, but for one that was just being made, which holds nothing. A segment
//     that ends with it and is followed by none is damage.
//  6. A segment grows by whole steps of zeros, which are synced before a frame is written there, and always beyond the
//     last frame. So a file that ends inside a step has nothing in that step, and no frame reaches the end of the file:
//     one that was cut short is noticed.
//  7. Segments in which no entry of the log is left are removed, the oldest first, each for good before the next: what is
//     there after a crash is always a run of segments up to the newest. The frame that made them superfluous was synced
//     before. One more than needed does no harm; one less is noticed, because entries are missing.
//
// Zeros are written rather than blocks reserved, because a sync of a reserved block must write metadata, too.
//
// # Limits
//
// A Log keeps 12 bytes in memory for each entry. Recovery reads all segments once, one at a time in memory. After an
// error the log takes no more writes, and does not sync again: what it holds then is for the next Open to find out.
package seglog
