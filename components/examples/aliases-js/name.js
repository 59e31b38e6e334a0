// Random names that people can pronounce and that cannot be guessed: 64 random bits as
// `lusab-babad-gutih-tugad`.

// Letters with distinct sounds, so that a name can be read aloud.
const CONSONANTS = 'bdfghjklmnprstvz';
const VOWELS = 'aiou';
const WORD = [CONSONANTS, VOWELS, CONSONANTS, VOWELS, CONSONANTS];

export function pronounceable() {
  const words = crypto.getRandomValues(new Uint16Array(4));
  return Array.from(words, spelt).join('-');
}

// Returns the word for a number of 16 bits.
function spelt(bits) {
  let word = '';
  for (const letters of WORD) {
    word += letters[bits % letters.length];
    bits = Math.floor(bits / letters.length);
  }
  return word;
}
