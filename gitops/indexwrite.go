package gitops

import (
	"crypto/sha1"
	"encoding/binary"
)

// bytes encodes the index, checksum included, in the version it was read in (3 where a version 2 needs it).
func (ix *index) bytes() []byte {
	size, version := 64, max(ix.version, 2)
	extended := false
	for i := range ix.entries {
		size += 72 + len(ix.entries[i].name)
		extended = extended || ix.entries[i].ext != 0
	}
	if version < 4 {
		version = 2
		if extended {
			version = 3
		}
	}
	b := make([]byte, 0, size+size/16)
	b = append(b, "DIRC"...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(ix.entries)))
	prev := ""
	for i := range ix.entries {
		e := &ix.entries[i]
		start := len(b)
		b = e.appendHead(b)
		if version == 4 {
			common := 0
			for common < min(len(prev), len(e.name)) && prev[common] == e.name[common] {
				common++
			}
			b = appendOffset(b, len(prev)-common)
			b = append(append(b, e.name[common:]...), 0)
			prev = e.name
			continue
		}
		b = append(b, e.name...)
		const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00"
		b = append(b, zeros[:8-(len(b)-start)%8]...)
	}
	if ix.tree != nil {
		b = appendExtension(b, "TREE", ix.tree.append(nil))
	}
	if ix.undo != nil {
		b = appendExtension(b, "REUC", ix.undo)
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

func (e *indexEntry) appendHead(b []byte) []byte {
	for _, v := range [...]uint32{e.st.ctimeS, e.st.ctimeN, e.st.mtimeS, e.st.mtimeN, e.st.dev, e.st.ino, e.mode, e.st.uid, e.st.gid, e.st.size} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, e.id[:]...)
	flags := e.flags | uint16(min(len(e.name), 0xfff))
	if e.ext == 0 {
		return binary.BigEndian.AppendUint16(b, flags)
	}
	b = binary.BigEndian.AppendUint16(b, flags|flagExtended)
	return binary.BigEndian.AppendUint16(b, e.ext)
}

func appendExtension(b []byte, sig string, data []byte) []byte {
	b = append(b, sig...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// appendOffset writes the variable-length number of version 4.
func appendOffset(b []byte, v int) []byte {
	var t [10]byte
	p := len(t) - 1
	t[p] = byte(v & 0x7f)
	for v >>= 7; v != 0; v >>= 7 {
		v--
		p--
		t[p] = 0x80 | byte(v&0x7f)
	}
	return append(b, t[p:]...)
}
