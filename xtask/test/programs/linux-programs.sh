# Programs of guests/linux/tests, compiled by the host: on the host's Linux, and on Linux as a program.
echo "=== vector registers"
vectors
echo "code $?"
