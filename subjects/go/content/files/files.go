// Package files finds what is served: texts that are made from a seed, or the
// files of a folder.
package files

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"time"
)

// BytesMax is the largest file that is served: they are held in memory.
const BytesMax = 64 << 20

// File is a representation without a coding.
type File struct {
	Name    string // as in the path, without the slash
	Type    string // its media type
	Changed time.Time
	Tag     string // a name of its content, for an entity tag
	Body    []byte
}

// Files are looked up by the path of a request, without its leading slash.
type Files interface {
	// Find gives a file; its error is fs.ErrNotExist where there is none.
	Find(name string) (*File, error)
}

// Made are the texts: of each kind one of 1 KB and of each power of two up to
// 1 MB, such as realistic/4k.txt and repeated/1m.txt; and prose, a picture and a
// font as each of several types, such as types/prose.css, types/prose.pdf,
// types/picture.png and types/font.ttf.
func Made(seed uint64) Files {
	made := map[string]*File{}
	for exponent := 10; exponent <= 20; exponent++ {
		size := 1 << exponent
		for kind, write := range map[string]func(int, *rand.Rand) []byte{"realistic": realistic, "repeated": repeated} {
			// Each has a source of its own: none depends on the others' order.
			random := rand.New(rand.NewPCG(seed, uint64(exponent)))
			name := fmt.Sprintf("%s/%s.txt", kind, shortSize(size))
			made[name] = typed(name, write(size, random))
		}
	}
	prose := realistic(16<<10, rand.New(rand.NewPCG(seed, 0)))
	for _, ending := range []string{".html", ".xhtml", ".css", ".js", ".json", ".xml", ".svg"} {
		name := "types/prose" + ending
		made[name] = typed(name, prose)
	}
	made["types/prose.gz"] = typed("types/prose.gz", encoded("gzip", prose))
	made["types/prose.pdf"] = typed("types/prose.pdf", pdf(realistic(64<<10, rand.New(rand.NewPCG(seed, 2)))))
	for ending, body := range pictures(rand.New(rand.NewPCG(seed, 1))) {
		name := "types/picture" + ending
		made[name] = typed(name, body)
	}
	for ending, body := range fonts(rand.New(rand.NewPCG(seed, 3))) {
		name := "types/font" + ending
		made[name] = typed(name, body)
	}
	return inMemory(made)
}

// typed is a made file whose type is that of its name.
func typed(name string, body []byte) *File {
	return &File{
		Name:    name,
		Type:    typeOf(name),
		Changed: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Tag:     tag(body),
		Body:    body,
	}
}

type inMemory map[string]*File

func (m inMemory) Find(name string) (*File, error) {
	if file, ok := m[name]; ok {
		return file, nil
	}
	return nil, fs.ErrNotExist
}

func shortSize(size int) string {
	if size >= 1<<20 {
		return fmt.Sprintf("%dm", size>>20)
	}
	return fmt.Sprintf("%dk", size>>10)
}

// realistic is prose of made-up words as often used as words are (Zipf's law):
// it compresses about as text of people does.
func realistic(size int, random *rand.Rand) []byte {
	words := vocabulary(2000, random)
	common := rand.NewZipf(random, 1.2, 3, uint64(len(words)-1))
	text := make([]byte, 0, size+32)
	for sentence := 0; len(text) < size; {
		word := words[common.Uint64()]
		if sentence == 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		text = append(text, word...)
		if sentence++; sentence > 4 && random.IntN(10) == 0 {
			text = append(text, '.')
			sentence = 0
		}
		if random.IntN(12) == 0 {
			text = append(text, '\n')
		} else {
			text = append(text, ' ')
		}
	}
	return text[:size]
}

func vocabulary(count int, random *rand.Rand) []string {
	const consonants, vowels = "bcdfghklmnprstvwz", "aeiou"
	words := make([]string, count)
	for i := range words {
		var word strings.Builder
		for range 1 + random.IntN(4) {
			word.WriteByte(consonants[random.IntN(len(consonants))])
			word.WriteByte(vowels[random.IntN(len(vowels))])
			if random.IntN(3) == 0 {
				word.WriteByte(consonants[random.IntN(len(consonants))])
			}
		}
		words[i] = word.String()
	}
	return words
}

// repeated is one paragraph over and over. Gzip leaves some 430 bytes of the
// first, and a few bits of each 258 that follow: 1 KB comes to a half, 32 KB to a
// fiftieth and 1 MB to a 190th, about as the contrived files of small-files.txt.
func repeated(size int, _ *rand.Rand) []byte {
	return []byte(strings.Repeat(paragraph, size/len(paragraph)+1)[:size])
}

const paragraph = "Nothing in this paragraph is said twice, for a compressor finds at once what it has read before: " +
	"the quick brown fox jumps over a lazy dog, five dozen liquor jugs go into my box, and sphinxes of black quartz judge every vow. " +
	"Whoever serves it may count how much is sent by wire. Half of one kilobyte remains where only that was asked for; " +
	"beyond it each further copy adds little more than where its text stood, besides how far that reached. " +
	"Thus thirty-two such pages need hardly larger envelopes, although a thousand will travel in several. " +
	"Pictures, music, films gain none by another squeeze: their makers did this already, knowing eyes.\n"

// In are the files of a folder. Nothing outside of it is found, links included.
func In(folder string) (Files, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	return inFolder{root}, nil
}

type inFolder struct{ root *os.Root }

func (f inFolder) Find(name string) (*File, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	defer file.Close()
	facts, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !facts.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	if facts.Size() > BytesMax {
		return nil, fmt.Errorf("%s has more than %d bytes", name, BytesMax)
	}
	body, err := io.ReadAll(io.LimitReader(file, BytesMax))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be read", name), err)
	}
	return &File{Name: name, Type: typeOf(name), Changed: facts.ModTime(), Tag: tag(body), Body: body}, nil
}

// types are fixed: what the machine believes of names does not change answers.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".txt": "text/plain; charset=utf-8", ".js": "application/javascript", ".mjs": "application/javascript",
	".json": "application/json", ".xml": "application/xml", ".xhtml": "application/xhtml+xml",
	".svg": "image/svg+xml", ".pdf": "application/pdf", ".gz": "application/gzip", ".gif": "image/gif",
	".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".ico": "image/x-icon",
	".mp3": "audio/mpeg", ".mp4": "video/mp4", ".weba": "audio/webm", ".webm": "video/webm", ".otf": "font/otf",
	".ttf": "font/ttf", ".woff2": "font/woff2",
}

func typeOf(name string) string {
	if known, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return known
	}
	return "application/octet-stream"
}

func tag(body []byte) string {
	hash := fnv.New64a()
	_, _ = hash.Write(body)
	return fmt.Sprintf("%016x", hash.Sum64())
}
