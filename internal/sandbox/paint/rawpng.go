package paint

import (
	"bufio"
	"encoding/binary"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
)

// rawPNG writes a PNG without compression: the size follows from the picture's size alone.
type rawPNG struct {
	w     *bufio.Writer
	block []byte // one stored deflate block is one IDAT chunk
	left  int    // bytes of the picture that are still to come
	first bool
	adler hash.Hash32
}

const storedMax = 65535

func newRawPNG(to io.Writer, width, height int) (*rawPNG, error) {
	p := &rawPNG{w: bufio.NewWriterSize(to, 64<<10), left: (3*width + 1) * height, first: true, adler: adler32.New()}
	if _, err := p.w.WriteString("\x89PNG\r\n\x1a\n"); err != nil {
		return nil, err
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(width))
	head = binary.BigEndian.AppendUint32(head, uint32(height))
	return p, p.chunk("IHDR", append(head, 8, 2, 0, 0, 0)) // 8 bits, RGB
}

// row adds one row of RGB bytes.
func (p *rawPNG) row(line []byte) error {
	p.block = append(append(p.block, 0), line...) // 0: the row is not filtered
	p.left -= len(line) + 1
	for len(p.block) >= storedMax || p.left == 0 && len(p.block) > 0 {
		n := min(len(p.block), storedMax)
		if err := p.stored(p.block[:n], p.left == 0 && n == len(p.block)); err != nil {
			return err
		}
		p.block = append(p.block[:0], p.block[n:]...)
	}
	return nil
}

// stored writes one block as deflate stores it, with zlib's header before the first and its checksum
// after the last.
func (p *rawPNG) stored(data []byte, last bool) error {
	var before, after []byte
	if p.first {
		before = append(before, 0x78, 0x01)
		p.first = false
	}
	final := byte(0)
	if last {
		final = 1
	}
	before = append(before, final)
	before = binary.LittleEndian.AppendUint16(before, uint16(len(data)))
	before = binary.LittleEndian.AppendUint16(before, ^uint16(len(data)))
	p.adler.Write(data)
	if last {
		after = p.adler.Sum(nil)
	}
	return p.chunk("IDAT", before, data, after)
}

// chunk writes one chunk whose data lies in parts, so that pixels are not copied once more.
func (p *rawPNG) chunk(kind string, data ...[]byte) error {
	size := 0
	for _, part := range data {
		size += len(part)
	}
	head := append(binary.BigEndian.AppendUint32(nil, uint32(size)), kind...)
	if _, err := p.w.Write(head); err != nil {
		return err
	}
	sum := crc32.ChecksumIEEE(head[4:])
	for _, part := range data {
		sum = crc32.Update(sum, crc32.IEEETable, part)
		if _, err := p.w.Write(part); err != nil {
			return err
		}
	}
	_, err := p.w.Write(binary.BigEndian.AppendUint32(nil, sum))
	return err
}

func (p *rawPNG) close() error {
	if err := p.chunk("IEND"); err != nil {
		return err
	}
	return p.w.Flush()
}
