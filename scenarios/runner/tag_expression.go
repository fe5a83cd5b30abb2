package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// tagExpression is a condition on tags: tags joined by and, or, not and parentheses, as Cucumber's
// tag expressions are.
type tagExpression func(tags []string) bool

// parseTags reads a tag expression.
func parseTags(text string) (tagExpression, error) {
	spaced := strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	p := &tagParser{words: strings.Fields(spaced)}
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	if len(p.words) > 0 {
		return nil, fmt.Errorf("%q is one word too many", p.words[0])
	}
	return e, nil
}

type tagParser struct{ words []string }

func (p *tagParser) next(word string) bool {
	if len(p.words) > 0 && p.words[0] == word {
		p.words = p.words[1:]
		return true
	}
	return false
}

func (p *tagParser) or() (tagExpression, error) {
	left, err := p.and()
	for err == nil && p.next("or") {
		var right tagExpression
		right, err = p.and()
		was := left
		left = func(tags []string) bool { return was(tags) || right(tags) }
	}
	return left, err
}

func (p *tagParser) and() (tagExpression, error) {
	left, err := p.not()
	for err == nil && p.next("and") {
		var right tagExpression
		right, err = p.not()
		was := left
		left = func(tags []string) bool { return was(tags) && right(tags) }
	}
	return left, err
}

func (p *tagParser) not() (tagExpression, error) {
	switch {
	case p.next("not"):
		e, err := p.not()
		return func(tags []string) bool { return !e(tags) }, err
	case p.next("("):
		e, err := p.or()
		if err == nil && !p.next(")") {
			err = errors.New("a parenthesis is not closed")
		}
		return e, err
	case len(p.words) == 0:
		return nil, errors.New("a tag is missing at the end")
	}
	tag := p.words[0]
	if !strings.HasPrefix(tag, "@") || len(tag) == 1 {
		return nil, fmt.Errorf("%q is no tag", tag)
	}
	p.words = p.words[1:]
	return func(tags []string) bool { return slices.Contains(tags, tag) }, nil
}
