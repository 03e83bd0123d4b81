// Texts that become part of the program: RECAPTURE_EMBED(page_css, "harness/report/page.css"). The file that has it
// names them in CMake's OBJECT_DEPENDS.
#pragma once

// Global: for aarch64, GCC takes such an address from the GOT, which has none of a label that only the assembler knows.
#define RECAPTURE_EMBED(name, path)                                                                \
  extern "C" const char name[]; /* NOLINT(bugprone-macro-parentheses): a name that is declared. */ \
  __asm__(".pushsection .rodata\n.global " #name "\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n")
