// Random names that people can say to each other and nobody can guess: 64 random bits as `lusab-babad-gutih-tugad`.

// Letters that sound apart from each other, so that a name survives being read aloud.
const CONSONANTS = 'bdfghjklmnprstvz';
const VOWELS = 'aiou';
const WORD = [CONSONANTS, VOWELS, CONSONANTS, VOWELS, CONSONANTS];

export function pronounceable() {
  const words = crypto.getRandomValues(new Uint16Array(4));
  return Array.from(words, spelt).join('-');
}

// One word for each of the numbers of 16 bits.
function spelt(bits) {
  let word = '';
  for (const letters of WORD) {
    word += letters[bits % letters.length];
    bits = Math.floor(bits / letters.length);
  }
  return word;
}
