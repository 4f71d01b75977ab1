package files

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Of a font: its units to the em, points of each outline, and outlines.
const (
	em       = 1024
	points   = 32
	outlines = 1 + 10 + 26 + 26 // what is missing, digits, capitals and small letters
)

// sfntVersion says that outlines are TrueType's.
const sfntVersion = 0x00010000

// fontTable is a part of a font. known is its place in WOFF2's list of names.
type fontTable struct {
	tag   string
	known byte
	body  []byte
}

// fonts are one font in several formats, by the endings of their names: letters
// are rings with dents. An OTF is an OpenType font with TrueType's outlines.
func fonts(random *rand.Rand) map[string][]byte {
	tables := fontTables(random)
	plain := sfnt(tables)
	return map[string][]byte{".ttf": plain, ".otf": plain, ".woff2": woff2(tables, len(plain))}
}

// fontTables has the tables that OpenType requires, in WOFF2's order: loca
// follows glyf.
func fontTables(random *rand.Rand) []fontTable {
	glyphs, places := glyphsOf(random)
	var widths []byte
	for range outlines {
		widths = append(widths, big(uint16(em), int16(0))...)
	}
	const line, dents, none = int16(em), int16(-200), int16(0)
	return []fontTable{
		{"OS/2", 6, slices.Concat(
			big(uint16(4), int16(em), uint16(400), uint16(5), uint16(0)),
			make([]byte, 20+2+10+16), []byte("NONE"),
			big(uint16(0x40), uint16('0'), uint16('z'), line, dents, none, uint16(em), uint16(200)),
			make([]byte, 8), big(int16(em/2), line, uint16(0), uint16(' '), uint16(0)))},
		{"cmap", 0, characters()},
		{"head", 1, slices.Concat(
			big(uint32(sfntVersion), uint32(0x00010000), uint32(0), uint32(0x5f0f3cf5), uint16(1<<11), uint16(em)),
			make([]byte, 16), big(none, none, int16(em), int16(em), uint16(0), uint16(8), int16(2), none, none))},
		{"hhea", 2, slices.Concat(
			big(uint32(sfntVersion), line, dents, none, uint16(em), none, none, int16(em), int16(1), none, none),
			make([]byte, 10), big(uint16(outlines)))},
		{"hmtx", 3, widths},
		{"maxp", 4, slices.Concat(
			big(uint32(sfntVersion), uint16(outlines), uint16(points), uint16(1), uint16(0), uint16(0), uint16(1)),
			make([]byte, 16))},
		{"name", 5, names()},
		{"post", 7, slices.Concat(big(uint32(0x00030000), uint32(0), int16(-100), int16(50)), make([]byte, 20))},
		{"glyf", 10, glyphs},
		{"loca", 11, places},
	}
}

// glyphsOf are the outlines, and where each begins, halved.
func glyphsOf(random *rand.Rand) (glyphs, places []byte) {
	for range outlines {
		places = append(places, big(uint16(len(glyphs)/2))...)
		var across, down []int16
		lastX, lastY := int16(0), int16(0)
		for at := range points {
			angle := 2 * math.Pi * float64(at) / points
			radius := 300 + 150*random.Float64()
			x, y := int16(em/2+radius*math.Cos(angle)), int16(em/2+radius*math.Sin(angle))
			across, down = append(across, x-lastX), append(down, y-lastY)
			lastX, lastY = x, y
		}
		glyphs = append(glyphs, big(int16(1), int16(0), int16(0), int16(em), int16(em), uint16(points-1), uint16(0))...)
		// Each point is on the curve, and its way from the last one has two bytes in each direction.
		glyphs = append(glyphs, bytes.Repeat([]byte{1}, points)...)
		glyphs = append(glyphs, big(across, down)...)
	}
	places = append(places, big(uint16(len(glyphs)/2))...)
	return glyphs, places
}

// characters map digits and letters to their outlines (format 4).
func characters() []byte {
	return big(uint16(0), uint16(1), uint16(3), uint16(1), uint32(12),
		[]uint16{4, 48, 0, 8, 8, 2, 0},
		[]uint16{'9', 'Z', 'z', 0xffff}, uint16(0), []uint16{'0', 'A', 'a', 0xffff},
		[]int16{1 - '0', 11 - 'A', 37 - 'a', 1}, make([]uint16, 4))
}

// names are the family's, its style's, the font's and PostScript's.
func names() []byte {
	ids := []uint16{1, 2, 4, 6}
	head, text := big(uint16(0), uint16(len(ids)), uint16(6+12*len(ids))), []byte{}
	for _, id := range ids {
		name := "Made"
		if id == 2 {
			name = "Regular"
		}
		head = append(head, big(uint16(3), uint16(1), uint16(0x409), id, uint16(2*len(name)), uint16(len(text)))...)
		for _, letter := range name {
			text = append(text, big(uint16(letter))...)
		}
	}
	return append(head, text...)
}

// sfnt is the font as a file of OpenType.
func sfnt(tables []fontTable) []byte {
	sorted := slices.SortedFunc(slices.Values(tables), func(a, b fontTable) int { return strings.Compare(a.tag, b.tag) })
	power := 0
	for 2<<power <= len(sorted) {
		power++
	}
	head := big(uint32(sfntVersion), uint16(len(sorted)), uint16(16<<power), uint16(power), uint16(16*len(sorted)-16<<power))
	var bodies []byte
	sums := 0
	for _, table := range sorted {
		place := 12 + 16*len(sorted) + len(bodies)
		if table.tag == "head" {
			sums = place + 8
		}
		head = append(head, table.tag...)
		head = append(head, big(sum(table.body), uint32(place), uint32(len(table.body)))...)
		bodies = append(bodies, table.body...)
		bodies = append(bodies, make([]byte, -len(bodies)&3)...)
	}
	file := append(head, bodies...)
	binary.BigEndian.PutUint32(file[sums:], 0xb1b0afba-sum(file))
	return file
}

// sum adds up a table by four bytes, with as many zeros as it lacks.
func sum(body []byte) uint32 {
	body = append(bytes.Clone(body), make([]byte, -len(body)&3)...)
	total := uint32(0)
	for ; len(body) > 0; body = body[4:] {
		total += binary.BigEndian.Uint32(body)
	}
	return total
}

// woff2 is the font as a file of WOFF 2.0, with no table transformed.
func woff2(tables []fontTable, plain int) []byte {
	const untransformed = 3 << 6 // of glyf and loca
	var directory, bodies []byte
	for _, table := range tables {
		flags := table.known
		if table.tag == "glyf" || table.tag == "loca" {
			flags |= untransformed
		}
		directory = append(directory, flags)
		directory = append(directory, base128(len(table.body))...)
		bodies = append(bodies, table.body...)
	}
	packed := encoded("br", bodies)
	head := slices.Concat([]byte("wOF2"),
		big(uint32(sfntVersion), uint32(48+len(directory)+len(packed)), uint16(len(tables)), uint16(0),
			uint32(plain), uint32(len(packed)), uint16(1), uint16(0)),
		make([]byte, 20))
	return slices.Concat(head, directory, packed)
}

// base128 has seven bits of a number in each byte, the highest first.
func base128(number int) []byte {
	out := []byte{byte(number & 0x7f)}
	for number >>= 7; number > 0; number >>= 7 {
		out = append([]byte{byte(number&0x7f) | 0x80}, out...)
	}
	return out
}

// big are numbers one after another, the highest byte of each first.
func big(values ...any) []byte {
	var out bytes.Buffer
	for _, value := range values {
		if err := binary.Write(&out, binary.BigEndian, value); err != nil {
			panic("files: a font has what is no number: " + err.Error())
		}
	}
	return out.Bytes()
}
