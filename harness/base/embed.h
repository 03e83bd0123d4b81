// Embeds a file: RECAPTURE_EMBED(page_css, "harness/report/page.css"). List the embedded files in CMake's
// OBJECT_DEPENDS.
#pragma once

// Global: for aarch64, GCC loads the address from the GOT, which has no entry for an assembler-local label.
#define RECAPTURE_EMBED(name, path)                                                                \
  extern "C" const char name[]; /* NOLINT(bugprone-macro-parentheses): a name that is declared. */ \
  __asm__(".pushsection .rodata\n.global " #name "\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n")
