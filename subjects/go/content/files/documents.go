package files

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"wallfinder.dev/subjects/content/encode"
)

// pdf is a document of one page (ISO 32000-1): its text is a stream that is
// deflated, as writers of such files have it.
func pdf(text []byte) []byte {
	var page bytes.Buffer
	page.WriteString("BT /F1 10 Tf 12 TL 40 800 Td\n")
	for line := range bytes.Lines(text) {
		fmt.Fprintf(&page, "(%s) Tj T*\n", bytes.TrimRight(line, "\n"))
	}
	page.WriteString("ET\n")
	packed := encoded("deflate", page.Bytes())
	var out bytes.Buffer
	out.WriteString("%PDF-1.4\n")
	var places []int
	for _, object := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", len(packed), packed),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	} {
		places = append(places, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(places), object)
	}
	table := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(places)+1)
	for _, place := range places {
		fmt.Fprintf(&out, "%010d 00000 n \n", place)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(places)+1, table)
	return out.Bytes()
}

// icon holds one picture as PNG, of so many pixels each way and of colours with alpha.
func icon(png []byte, pixels uint8) []byte {
	const head = 22 // the head of the file, and that of its only picture
	var out bytes.Buffer
	for _, value := range []any{
		uint16(0), uint16(1), uint16(1),
		pixels, pixels, uint8(0), uint8(0), uint16(1), uint16(32), uint32(len(png)), uint32(head),
	} {
		// A write to memory does not fail.
		_ = binary.Write(&out, binary.LittleEndian, value)
	}
	out.Write(png)
	return out.Bytes()
}

// encoded is a body in a coding that can be had.
func encoded(coding string, body []byte) []byte {
	packed, err := encode.Defaults().Encode(coding, body)
	if err != nil {
		panic(fmt.Sprintf("files: nothing can be made as %s: %v", coding, err))
	}
	return packed
}
