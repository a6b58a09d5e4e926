int bench(void) { return 0; }
