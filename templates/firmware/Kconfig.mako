config ${v.upper}
	bool "${v.purpose} of ${v.name}"
	help
	  A library in C11 without heap and stdio; its header is ${v.name}.h.
