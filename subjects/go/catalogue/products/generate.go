package products

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/brianvoe/gofakeit/v7"
)

const (
	// brandCount is small enough that a draw of 100 products has brands in common.
	brandCount = 24

	paragraphCount = 5
	sentencesMin   = 4
	sentencesMax   = 6
	wordsMin       = 16
	wordsMax       = 26
)

// brandStream is the random stream that names the brands. Product n has
// stream n, so no product shares it.
const brandStream = 1<<64 - 1

// generator makes products from one seed. It is read-only once made, so any
// number of goroutines may call product at the same time.
type generator struct {
	seed   uint64
	brands []string
}

func newGenerator(seed uint64) generator {
	fake := newFaker(seed, brandStream)
	brands := make([]string, brandCount)
	for i := range brands {
		brands[i] = fake.Company()
	}
	return generator{seed: seed, brands: brands}
}

// newFaker returns a source of fake data that no other stream shares. It is
// not locked: one goroutine uses it.
func newFaker(seed, stream uint64) *gofakeit.Faker {
	return gofakeit.NewFaker(rand.NewPCG(seed, stream), false)
}

// product makes product number n.
func (g generator) product(n int) Product {
	fake := newFaker(g.seed, uint64(n))
	return Product{
		ID:          fake.UUID(),
		Name:        fake.ProductName(),
		Brand:       g.brands[fake.Number(0, len(g.brands)-1)],
		Category:    fake.ProductCategory(),
		Price:       float64(fake.Number(199, 199_999)) / 100,
		Rating:      float64(fake.Number(10, 50)) / 10,
		ReviewCount: fake.Number(0, 25_000),
		Description: description(fake),
		Tags:        tags(fake),
		Attributes:  attributes(fake),
		Images:      images(fake),
	}
}

// description is a salad of random words: text of a natural length that gzip
// can only halve.
func description(fake *gofakeit.Faker) string {
	paragraphs := make([]string, paragraphCount)
	for i := range paragraphs {
		sentences := make([]string, fake.Number(sentencesMin, sentencesMax))
		for j := range sentences {
			sentences[j] = sentence(fake)
		}
		paragraphs[i] = strings.Join(sentences, " ")
	}
	return strings.Join(paragraphs, "\n\n")
}

func sentence(fake *gofakeit.Faker) string {
	words := make([]string, fake.Number(wordsMin, wordsMax))
	for i := range words {
		words[i] = word(fake)
	}
	text := strings.Join(words, " ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// word avoids the proper names and pronouns of gofakeit's Word.
func word(fake *gofakeit.Faker) string {
	switch fake.Number(0, 5) {
	case 0:
		return fake.NounConcrete()
	case 1:
		return fake.NounAbstract()
	case 2:
		return fake.VerbAction()
	case 3:
		return fake.AdjectiveDescriptive()
	case 4:
		return fake.AdverbManner()
	default:
		return fake.PrepositionSimple()
	}
}

func tags(fake *gofakeit.Faker) []string {
	tags := make([]string, fake.Number(5, 15))
	for i := range tags {
		tags[i] = fake.NounConcrete()
	}
	return tags
}

func attributes(fake *gofakeit.Faker) Attributes {
	return Attributes{
		Color:     fake.Color(),
		Material:  fake.ProductMaterial(),
		Dimension: fmt.Sprintf("%d x %d x %d mm", fake.Number(10, 900), fake.Number(10, 900), fake.Number(10, 900)),
		Weight:    fmt.Sprintf("%d g", fake.Number(20, 20_000)),
		Warranty:  fmt.Sprintf("%d months", 6*fake.Number(1, 10)),
		Origin:    fake.Country(),
		UPC:       fake.ProductUPC(),
	}
}

func images(fake *gofakeit.Faker) []string {
	images := make([]string, fake.Number(3, 8))
	for i := range images {
		images[i] = fmt.Sprintf("https://images.example.com/products/%s.jpg", fake.UUID())
	}
	return images
}
