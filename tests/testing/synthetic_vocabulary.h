// tests/testing/synthetic_vocabulary.h
//
// Vocabularies as large as a real model's, without the model.
#pragma once

#include "coordinator/frontend/vocabulary.h"

namespace deltafin::testing {

// That of K3, reserved tokens included.
inline constexpr int kFullVocabularySize = 163'840;

// Every byte; words of letters as frequent as in text, some with the
// punctuation of JSON; runs of blanks and line ends; characters of two to four
// bytes, whole and cut. The chat format's control tokens are reserved. The same
// for the same size. REQUIRES: size >= 2048.
Vocabulary SyntheticVocabulary(int size);

}  // namespace deltafin::testing
