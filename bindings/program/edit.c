/* edit.c -- a line of input, by libedit or plainly
 *
 * libedit's own signal handling cannot give the prompt back after Ctrl-C, so
 * it is off and characters are read here: a signal ends the read, SIGINT ends
 * the line, a changed window or a return from the background redraws it.
 *
 * A terminal that can mark what is pasted is asked to (paste.h): all of it is
 * taken at once and then read as if typed, but for its tabs, which complete
 * nothing.
 *
 * SPDX-License-Identifier: MIT */
#include "edit.h"
#include "history.h"
#include "paste.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef MRT_LIBEDIT
#include <histedit.h>
#include <locale.h>
#include <wchar.h>
#endif

struct mrt_edit {
  char *buffer; /* the line read plainly */
  size_t room;
  FILE *log;
#ifdef MRT_LIBEDIT
  EditLine *el; /* NULL: no terminal */
  History *history;
  mrt_paste paste;
  bool pasted; /* the last character was */
  const char *prompt;
  mrt_edit_complete complete;
  void *user;
#endif
};

static volatile sig_atomic_t caught;

static void catch (int signal_number) { caught = signal_number; }

/* ---- plain lines --------------------------------------------------------- */

static mrt_edit_result read_plain(mrt_edit *e, const char *prompt,
                                  const char **line) {
  fputs(prompt, stdout);
  fflush(stdout);
  ssize_t length = getline(&e->buffer, &e->room, stdin);
  if (length < 0) {
    clearerr(stdin);
    return caught == SIGINT ? MRT_EDIT_INTERRUPTED : MRT_EDIT_END;
  }
  if (length && e->buffer[length - 1] == '\n') e->buffer[length - 1] = 0;
  *line = e->buffer;
  return MRT_EDIT_LINE;
}

/* ---- libedit ------------------------------------------------------------- */

#ifdef MRT_LIBEDIT

static mrt_edit *owner(EditLine *el) {
  void *e = NULL;
  el_get(el, EL_CLIENTDATA, &e);
  return e;
}

static char *show_prompt(EditLine *el) { return (char *)owner(el)->prompt; }

/* Ask the terminal to mark what is pasted, or not to. */
static void mark_pastes(bool on) {
  const char *name = getenv("TERM");
  if (!name || !*name || !strcmp(name, "dumb")) return;
  fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
  fflush(stdout);
}

/* After a change of the window, or the shell's use of the terminal. */
static void redraw(EditLine *el) {
  if (caught == SIGCONT) { /* off and on: it believes that nothing changed */
    el_set(el, EL_PREP_TERM, 0);
    el_set(el, EL_PREP_TERM, 1);
    mark_pastes(true); /* shells take that back before they go on */
  }
  fputs("\r\033[J", stdout);
  fflush(stdout);
  el_resize(el);
  el_set(el, EL_REFRESH);
}

/* One character; -1 ends the line. */
static int read_character(EditLine *el, wchar_t *c) {
  mbstate_t state = { 0 };
  mrt_edit *e = owner(el);
  for (;;) {
    char byte;
    e->pasted = mrt_edit_paste_take(&e->paste, &byte);
    ssize_t n = e->pasted ? 1 : read(STDIN_FILENO, &byte, 1);
    if (n == 0) return 0;
    if (n < 0) {
      if (errno != EINTR || caught == SIGINT) return -1;
      redraw(el);
      continue;
    }
    size_t used = mbrtowc(c, &byte, 1, &state);
    if (used == (size_t)-1)
      memset(&state, 0, sizeof state); /* not in this encoding: dropped */
    else if (used != (size_t)-2)
      return 1;
  }
}

static unsigned char on_tab(EditLine *el, int key) {
  (void)key;
  mrt_edit *e = owner(el);
  if (e->pasted) return el_insertstr(el, "\t") ? CC_ERROR : CC_REFRESH;
  const LineInfo *info = el_line(el);
  const char *choices = NULL;
  const char *text = e->complete(
      e->user, info->buffer, (size_t)(info->cursor - info->buffer), &choices);
  if (choices) {
    printf("\n%s\n", choices);
    fflush(stdout);
  }
  if (text && *text && el_insertstr(el, text)) return CC_ERROR;
  if (choices) return CC_REDISPLAY;
  return text && *text ? CC_REFRESH : CC_REFRESH_BEEP;
}

static bool is_stopped(void) { return caught == SIGINT; }

static unsigned char on_paste(EditLine *el, int key) {
  (void)key;
  if (mrt_edit_paste_read(&owner(el)->paste, STDIN_FILENO, is_stopped))
    return CC_NORM;
  return is_stopped() ? CC_EOF : CC_ERROR;
}

/* Go up (-1) or down (1) a line of an entry that has several; where it has no
 * more, to the entry before or after by the key that does so. */
static unsigned char go(EditLine *el, int by) {
  const LineInfoW *info = el_wline(el);
  const wchar_t *begin = info->buffer, *at = info->cursor, *first = at, *to;
  while (first > begin && first[-1] != L'\n') first--;
  if (by < 0) {
    if (first == begin) return el_push(el, "\020"), CC_NORM;
    for (to = first - 1; to > begin && to[-1] != L'\n';) to--;
  } else {
    for (to = at; to < info->lastchar && *to != L'\n';) to++;
    if (to == info->lastchar) return el_push(el, "\016"), CC_NORM;
    to++;
  }
  for (ptrdiff_t n = at - first; n > 0 && to < info->lastchar && *to != L'\n';
       n--)
    to++;
  el_cursor(el, (int)(to - at));
  return CC_CURSOR;
}

static unsigned char on_up(EditLine *el, int key) {
  return (void)key, go(el, -1);
}
static unsigned char on_down(EditLine *el, int key) {
  return (void)key, go(el, 1);
}

/* EL_ADDFN of el_set would copy its strings and lose them. */
static void bind_keys(mrt_edit *e) {
  el_wset(e->el, EL_ADDFN, L"mrt-up", L"the line above", on_up);
  el_wset(e->el, EL_ADDFN, L"mrt-down", L"the line below", on_down);
  el_set(e->el, EL_BIND, "\\e[A", "mrt-up", NULL); /* the arrows, in the two */
  el_set(e->el, EL_BIND, "\\eOA", "mrt-up", NULL); /* modes of terminals */
  el_set(e->el, EL_BIND, "\\e[B", "mrt-down", NULL);
  el_set(e->el, EL_BIND, "\\eOB", "mrt-down", NULL);
  el_wset(e->el, EL_ADDFN, L"mrt-paste", L"take what is pasted", on_paste);
  el_set(e->el, EL_BIND, "\\e[200~", "mrt-paste", NULL);
  if (e->history) el_set(e->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
  if (!e->complete) return;
  el_wset(e->el, EL_ADDFN, L"complete", L"complete a name", on_tab);
  el_set(e->el, EL_BIND, "^I", "complete", NULL);
}

static void open_libedit(mrt_edit *e) {
  HistEvent event;
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return;
  setlocale(LC_CTYPE, "");
  e->el = el_init("mrt", stdin, stdout, stderr);
  if (!e->el) return;
  el_set(e->el, EL_CLIENTDATA, e);
  el_set(e->el, EL_SIGNAL, 0);
  el_set(e->el, EL_PROMPT, show_prompt);
  el_set(e->el, EL_GETCFN, read_character);
  el_set(e->el, EL_EDITOR, "emacs");
  e->history = history_init();
  if (e->history) {
    history(e->history, &event, H_SETSIZE, 2000);
    history(e->history, &event, H_SETUNIQUE, 1);
    el_set(e->el, EL_HIST, history, e->history);
  }
  bind_keys(e);
  el_source(e->el, NULL); /* the user's keys */
}

static mrt_edit_result read_edited(mrt_edit *e, const char *prompt,
                                   const char **line) {
  int length = 0;
  e->prompt = prompt;
  el_resize(e->el);
  mark_pastes(true);
  const char *text = el_gets(e->el, &length);
  mark_pastes(false);
  if (caught == SIGINT) {
    mrt_edit_paste_drop(&e->paste);
    puts("^C");
    return MRT_EDIT_INTERRUPTED;
  }
  if (!text || length <= 0) {
    putchar('\n');
    return MRT_EDIT_END;
  }
  char *copy = realloc(e->buffer, (size_t)length + 1);
  if (!copy) return MRT_EDIT_END;
  e->buffer = copy;
  e->room = (size_t)length + 1;
  memcpy(copy, text, (size_t)length);
  copy[length - (text[length - 1] == '\n')] = 0;
  copy[length] = 0;
  *line = copy;
  return MRT_EDIT_LINE;
}

static void enter(void *editor, const char *entry) {
  mrt_edit *e = editor;
  HistEvent event;
  if (e->history) history(e->history, &event, H_ENTER, entry);
}

static void close_libedit(mrt_edit *e) {
  free(e->paste.text);
  if (e->history) history_end(e->history);
  if (e->el) el_end(e->el);
}

#endif

/* ---- the editor ---------------------------------------------------------- */

mrt_edit *mrt_edit_open(mrt_edit_complete complete, void *user) {
  mrt_edit *e = calloc(1, sizeof *e);
#ifdef MRT_LIBEDIT
  if (!e) return NULL;
  e->complete = complete;
  e->user = user;
  open_libedit(e);
#else
  (void)complete;
  (void)user;
#endif
  return e;
}

void mrt_edit_close(mrt_edit *e) {
  if (!e) return;
#ifdef MRT_LIBEDIT
  close_libedit(e);
#endif
  if (e->log) fclose(e->log);
  free(e->buffer);
  free(e);
}

bool mrt_edit_history(mrt_edit *e, const char *path) {
#ifdef MRT_LIBEDIT
  if (e->el) e->log = mrt_edit_history_open(path, enter, e);
#else
  (void)path;
#endif
  return e->log != NULL;
}

void mrt_edit_remember(mrt_edit *e, const char *entry) {
#ifdef MRT_LIBEDIT
  enter(e, entry);
#endif
  if (e->log) mrt_edit_history_add(e->log, entry);
}

bool mrt_edit_drop(mrt_edit *e) {
#ifdef MRT_LIBEDIT
  return mrt_edit_paste_drop(&e->paste);
#else
  return (void)e, false;
#endif
}

mrt_edit_result mrt_edit_read(mrt_edit *e, const char *prompt,
                              const char **line) {
  static const int signals[] = { SIGINT, SIGWINCH, SIGCONT };
  enum { COUNT = sizeof signals / sizeof *signals };
  struct sigaction catcher = { .sa_handler = catch }, before[COUNT];
  mrt_edit_result result;
  caught = 0;
  sigemptyset(&catcher.sa_mask);
  for (int i = 0; i < COUNT; i++) sigaction(signals[i], &catcher, &before[i]);
#ifdef MRT_LIBEDIT
  if (e->el)
    result = read_edited(e, prompt, line);
  else
#endif
    result = read_plain(e, prompt, line);
  for (int i = 0; i < COUNT; i++) sigaction(signals[i], &before[i], NULL);
  return result;
}
