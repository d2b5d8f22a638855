/* libge_runner.so and its like: names that programs are linked to. The simulator has no graph engine, and programs find no function here. */
extern const int aclsim_no_graph_engine;
const int aclsim_no_graph_engine = 1;
