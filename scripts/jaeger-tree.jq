# Prints a trace from Jaeger's /api/traces like its page: service, span, start and duration. --arg n 5 prints the first five siblings.
.data[0] as $t
| ($t.spans | map(.startTime) | min) as $zero
| def parent: first(.references[] | select(.refType == "CHILD_OF") | .spanID) // "";
  ($t.spans | group_by(parent) | map({key: .[0] | parent, value: sort_by(.startTime)}) | from_entries) as $under
| def indent($depth): "  " * $depth // "";
  def tree($depth):
    "\(indent($depth))\($t.processes[.processID].serviceName)  \(.operationName)  +\(.startTime - $zero) us, \(.duration) us",
    (($under[.spanID] // []) as $all | ($all[:$n | tonumber][] | tree($depth + 1)),
      if ($all | length) > ($n | tonumber) then "\(indent($depth + 1))… \(($all | length) - ($n | tonumber)) more" else empty end);
$under[""][] | tree(0)
